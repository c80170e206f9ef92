// One page, several views. Every state has an address, which can be bookmarked and shared.

let views = {}; // path -> how to load its view
let current = null; // the view that is shown
let turn = 0; // counts addresses, so that a view that loads slowly does not replace a later one

/** Go to an address of this page. */
export function go(address, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", address);
  show();
}

/** The address of a path with parameters; a list gives one parameter several times. */
export function address(path, parameters = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined) query.append(name, one);
    }
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

/** Show the view of the address, now and whenever the address changes. */
export function start(all) {
  views = all;
  addEventListener("popstate", show);
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href]");
    const plain = event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
    if (!link || !plain || link.target || link.hasAttribute("download") || link.origin !== location.origin)
      return;
    if (!(link.pathname in views) || (link.pathname === location.pathname && link.hash)) return;
    event.preventDefault();
    go(link.pathname + link.search);
  });
  show();
}

async function show() {
  const now = (turn += 1);
  const parameters = new URLSearchParams(location.search);
  const { view } = await (views[location.pathname] ?? views["/"])();
  if (now !== turn) return;
  for (const link of document.querySelectorAll("header nav a")) {
    const here = link.pathname === location.pathname || link.pathname === `${location.pathname}s`; // a table, a family
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.getElementById("twin").href = twin(parameters);
  const main = document.getElementById("main");
  if (view === current && view.update) {
    view.update(parameters);
  } else {
    const first = current === null;
    current?.close?.();
    current = view;
    main.replaceChildren();
    document.body.dataset.view = view.name;
    view.open(main, parameters);
    if (!first) {
      scrollTo(0, 0);
      main.focus({ preventScroll: true });
    }
  }
}

/** The address of the same contents as JSON. */
function twin(parameters) {
  if (location.pathname !== "/") return `${location.pathname}.json${location.search}`;
  return parameters.has("table") ? address("/api/search", { table: parameters.get("table") }) : "/index.json";
}

/** Set the title of the page. */
export function title(text) {
  document.title = text ? `${text} · GenTUS` : "GenTUS";
}

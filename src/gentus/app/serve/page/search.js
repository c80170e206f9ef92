// The search view: a query, the tables found for it, and the comparison with one of them.

import { announce, failure, h, icon, some, tableName, waiting } from "./dom.js";
import { checkFile, picker, shape } from "./picker.js";
import { resultList } from "./results.js";
import { address, go, title } from "./route.js";
import { keyOf, searchFile, searchReference } from "./session.js";
import { fits, suggested } from "./verdict.js";

const FIRST = 10; // tables shown at first
const MOST = 100; // tables that the server returns at most
const wide = matchMedia("(min-width: 960px)"); // there is room for a list and a comparison

let main = null;
let session = null;
let chosen = null; // names of the tables that the user selected, in this order; null: the suggested ones
let fitting = false; // whether only tables that fit are listed
let parts = null; // elements of the workspace
let turn = 0; // counts searches, so that late answers to older ones are ignored
let shown = null; // the table that is compared

export const view = {
  name: "search",
  open(element, parameters) {
    main = element;
    parts = null;
    follow(parameters);
  },
  update: follow,
  close() {
    turn += 1;
    parts = null;
  },
};

/** Search with a file that was dropped, chosen or pasted anywhere on the page. */
export async function takeFile(file, header = "auto") {
  if (!main?.isConnected || document.body.dataset.view !== "search") {
    pending = file;
    go("/");
    return;
  }
  const now = (turn += 1);
  workspace(file.name, "Reading ...");
  try {
    await checkFile(file);
    const found = await searchFile(file, FIRST, header);
    if (now !== turn) return;
    begin(found);
    go(here(), {});
  } catch (error) {
    if (now === turn) fail(error);
  }
}

let pending = null; // a file that was dropped on another view

const ticked = () => chosen ?? suggested(session.hits);
const listed = () => session.hits.filter((hit) => !fitting || fits(hit));

function reference(parameters) {
  if (parameters.get("upload")) return { upload: parameters.get("upload") };
  if (parameters.get("table")) return { table: parameters.get("table") };
  return null;
}

/** Show what the address names. */
async function follow(parameters) {
  if (pending) {
    const file = pending;
    pending = null;
    takeFile(file);
    return;
  }
  const wanted = reference(parameters);
  if (wanted === null) {
    turn += 1;
    parts = null;
    main.replaceChildren(picker());
    title("");
    return;
  }
  const k = Math.min(MOST, Math.max(1, Number(parameters.get("k")) || FIRST));
  if (session === null || session.key !== keyOf(wanted)) {
    const now = (turn += 1);
    workspace(wanted.table ?? "Your table", "Searching ...");
    try {
      const found = await searchReference(wanted, k);
      if (now !== turn) return;
      begin(found);
    } catch (error) {
      if (now === turn) fail(error);
      return;
    }
  } else if (session.hits.length < k && (session.asked ?? FIRST) < k) {
    await more(k);
  }
  chosen = parameters.has("with") ? parameters.getAll("with").filter(Boolean) : null;
  fitting = parameters.has("fits") && session.hits.some(fits);
  arrange(parameters.get("open"), parameters.has("union"));
}

function begin(found) {
  session = found;
  session.asked = Math.max(FIRST, found.hits.length);
  chosen = null;
  fitting = false;
  parts = null;
  const [first] = session.hits;
  const best = first ? ` The ${fits(first) ? "best" : "nearest"} is ${first.table}.` : "";
  announce(`${session.verdict}${best}`);
}

/** The address of the current state. */
function here(changes = {}) {
  return address("/", {
    ...session.address,
    k: session.asked > FIRST ? session.asked : null,
    open: shown?.byUser ? shown.table : null,
    with: chosen?.length === 0 ? "" : chosen,
    fits: fitting ? 1 : null,
    ...changes,
  });
}

/** Show the frame at once, before the results arrive. */
function workspace(name, state) {
  parts = null;
  main.replaceChildren(
    h(
      "div",
      { class: "work" },
      h(
        "div",
        { class: "left" },
        h(
          "section",
          { class: "query", "aria-label": "Your table" },
          h("h1", {}, icon("file"), tableName(name)),
          h("p", { class: "soft" }, state),
        ),
        h("section", { class: "results" }, waiting(6)),
      ),
    ),
  );
}

function fail(error) {
  session = null;
  main
    .querySelector(".results")
    ?.replaceChildren(failure(error, h("p", {}, h("a", { href: "/" }, "Search with another table"))));
  const state = main.querySelector(".query .soft");
  if (state) state.textContent = "The search failed.";
}

/** Show results, the comparison with one of them, or the union. */
function arrange(open, union) {
  title(session.name);
  if (union && ticked().length) {
    parts = null;
    shown = null;
    import("./union.js").then(({ unionView }) => {
      main.replaceChildren(unionView(session, ticked(), here()));
      scrollTo(0, 0);
    });
    return;
  }
  if (parts === null) build();
  parts.list.tick(ticked());
  parts.list.filter(fitting);
  basket();
  const table = open ?? (wide.matches ? listed()[0]?.table : null);
  parts.work.classList.toggle("opened", open !== null);
  if (table) compare(table, open !== null);
  else {
    shown = null;
    parts.list.mark(null);
    parts.beside.replaceChildren();
  }
}

function build() {
  const list = resultList(session, { open: (table) => go(here({ open: table })), tick });
  const query = h("section", { class: "query", "aria-label": "Your table" });
  const beside = h("section", { class: "beside", "aria-label": "Comparison" });
  const found = session.hits.length;
  const anyFits = session.hits.some(fits);
  const only = h("input", {
    type: "checkbox",
    onchange: () => {
      fitting = only.checked;
      go(here(), { replace: true });
      announce(`${some(listed().length, "table")} listed.`);
    },
  });
  only.checked = fitting;
  const another = h(
    "button",
    {
      type: "button",
      class: "more",
      onclick: () => more(Math.min(MOST, 2 * session.asked)).then(() => go(here(), { replace: true })),
    },
    "Show more",
  );
  const results = h(
    "section",
    { class: "results", "aria-label": "Results" },
    h(
      "div",
      { class: "headline" },
      h("h2", {}, session.verdict),
      h("span", { class: "soft" }, `${session.ms < 10 ? session.ms.toFixed(1) : Math.round(session.ms)} ms`),
    ),
    anyFits
      ? h(
          "div",
          { class: "above soft" },
          session.hits.every(fits) ? null : h("label", {}, only, "Only tables that fit"),
          h("span", { title: "how likely a person would append the table" }, "score"),
        )
      : found
        ? h("p", { class: "soft" }, "The nearest, none of which fits:")
        : null,
    list.element,
    found >= session.asked && session.asked < MOST ? another : null,
  );
  const bottom = h("div", { class: "basket", role: "region", "aria-label": "Union" });
  const work = h("div", { class: "work" }, h("div", { class: "left" }, query, results), beside);
  parts = { work, list, beside, bottom };
  shown = null;
  describe(query);
  main.replaceChildren(work, bottom);
}

/** The first row of the query looks like data; of a file that is at hand, it can be read as the header. */
function doubtful() {
  const { file } = session;
  const again = (header, text) =>
    h("button", { type: "button", onclick: () => takeFile(file, header) }, text);
  return h(
    "p",
    { class: "doubt", role: "note" },
    `${session.doubt[0].toUpperCase()}${session.doubt.slice(1)}. It was read as a row.`,
    file ? h("span", {}, again("no", "It has no header"), again("yes", "It is the header")) : null,
  );
}

/** Describe the query; its size is filled in later. */
function describe(query) {
  const facts = h("p", { class: "soft" }, some(session.columns.length, "column"));
  query.replaceChildren(
    h(
      "h1",
      {},
      icon("file"),
      tableName(session.name),
      h("a", { class: "button quiet", href: "/" }, "New search"),
    ),
    facts,
    session.doubt ? doubtful() : "",
    h(
      "ul",
      { class: "chips", "aria-label": "Its columns" },
      session.columns.slice(0, 24).map((name) => h("li", {}, name)),
      session.columns.length > 24
        ? h("li", { class: "soft" }, `and ${session.columns.length - 24} more`)
        : null,
    ),
  );
  session.preview().then(
    (table) => {
      facts.textContent = shape(table);
    },
    () => {},
  );
}

async function more(k) {
  const now = (turn += 1);
  try {
    await session.search(k);
    if (now !== turn) return;
    session.asked = k;
    parts = null;
    announce(session.verdict);
  } catch (error) {
    parts?.list.element.after(failure(error));
  }
}

async function compare(table, byUser) {
  if (shown?.table === table && parts.beside.childElementCount) {
    if (byUser && !shown.byUser) announce(`Compared with ${table}`);
    shown.byUser = byUser;
    return;
  }
  shown = { table, byUser };
  parts.list.mark(table);
  const { comparison } = await import("./compare.js");
  if (shown?.table !== table || parts === null) return;
  parts.beside.replaceChildren(
    h("a", { class: "back", href: here({ open: null }) }, icon("back"), "Results"),
    comparison(session, table, { ticked: () => ticked().includes(table), tick: (on) => tick(table, on) }),
  );
  if (byUser) {
    announce(`Compared with ${table}`);
    if (!wide.matches) scrollTo(0, 0);
  }
}

function tick(table, on) {
  const others = ticked().filter((name) => name !== table);
  chosen = on ? [...others, table] : others;
  go(here(), { replace: true });
  check();
}

/** Set the checkboxes of the list and of the comparison. */
function check() {
  for (const box of document.querySelectorAll("input[data-tick]"))
    box.checked = ticked().includes(box.dataset.tick);
}

/** The selected tables, and the link to their union. */
function basket() {
  const selected = ticked();
  parts.bottom.classList.toggle("filled", selected.length > 0);
  if (!selected.length) {
    parts.bottom.replaceChildren();
    return;
  }
  const rows = selected.map((name) => session.hit(name)?.rows);
  const known = rows.every((number) => typeof number === "number");
  parts.bottom.replaceChildren(
    h(
      "span",
      {},
      h("strong", {}, some(selected.length, "table")),
      " selected",
      known
        ? h(
            "span",
            { class: "rows" },
            `, ${some(
              rows.reduce((sum, one) => sum + one, 0),
              "row",
            )}`,
          )
        : null,
    ),
    h(
      "button",
      {
        type: "button",
        class: "quiet",
        onclick: () => {
          chosen = [];
          go(here(), { replace: true });
          check();
          main.focus({ preventScroll: true }); // the button goes away
        },
      },
      "Clear",
    ),
    h(
      "a",
      { class: "button primary", href: here({ union: 1, open: null }) },
      "Preview the union",
      icon("right"),
    ),
  );
}

/** The tables that the last search found. */
export const lastHits = () => (session ? session.hits.map((hit) => hit.table) : []);

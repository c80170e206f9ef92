// The tree of identifiers: one code per level, and the tables below each.

import { get } from "./api.js";
import { announce, bar, count, failure, h, icon, some, tableName, waiting } from "./dom.js";
import { slotOf, swatch, whileMade } from "./families.js";
import { preview, Queue } from "./lake.js";
import { address, title } from "./route.js";

const SHOWN = 24; // codes of a level shown at first
const LISTED = 12; // up to so many tables are listed without further codes
const queue = new Queue(2);
let end = () => {};
let main = null;

export const view = {
  name: "tree",
  open(element, parameters) {
    main = element;
    follow(parameters);
  },
  update: follow,
  close() {
    end();
    queue.clear();
  },
};

function follow(parameters) {
  queue.clear();
  title("Tree");
  const prefix = codesOf(parameters.get("prefix") ?? "");
  const body = h("div", {}, waiting(12));
  main.replaceChildren(
    h(
      "div",
      { class: "page tree" },
      h("h1", {}, "Tree"),
      h(
        "p",
        { class: "soft" },
        "Every table has an identifier, a sequence of codes. Tables with similar contents share their first codes. A search walks down this tree.",
      ),
      trail(prefix),
      body,
    ),
  );
  end();
  end = whileMade(
    () => get("/api/tree", { prefix: prefix.join("-") }),
    (node) => {
      if (body.querySelector("[aria-expanded=true]")) return; // what the user opened stays open
      body.replaceChildren(
        h(
          "p",
          { class: "soft facts" },
          h("span", {}, some(node.tables, "table")),
          h("span", {}, node.children.length ? some(node.children.length, "code") : "the last code"),
        ),
        contents(node),
      );
      announce(`${some(node.tables, "table")} below`);
    },
    (error) => body.replaceChildren(failure(error)),
  );
}

/** The codes of an identifier, without its suffix. */
const codesOf = (text) => (text.match(/^\d+(?:-\d+)*/)?.[0] ?? "").split("-").filter(Boolean);

function trail(prefix) {
  if (!prefix.length) return null;
  const steps = prefix.map((code, at) => {
    const here = at === prefix.length - 1;
    return h(
      "li",
      {},
      here
        ? h("span", { "aria-current": "location" }, code)
        : h("a", { href: address("/tree", { prefix: prefix.slice(0, at + 1).join("-") }) }, code),
    );
  });
  return h(
    "nav",
    { "aria-label": "Path" },
    h("ol", { class: "trail" }, h("li", {}, h("a", { href: "/tree" }, "all")), steps),
  );
}

const few = (node) =>
  node.children.length === 0 || (node.prefix.length > 0 && node.tables <= LISTED && node.below.length > 0);

/** The tables if they are few, else the next codes. */
const contents = (node) =>
  few(node) ? h("ul", { class: "level" }, [...node.below].reverse().map(leaf).reverse()) : level(node); // the queue is last in, first out

/** The codes that follow a prefix, those with most tables first. */
function level(node) {
  const children = [...node.children].sort((one, other) => other.tables - one.tables);
  const most = children[0]?.tables ?? 1;
  const items = children.map((child) => () => branch(node.prefix, child, most));
  const list = h("ul", { class: "level", onkeydown: byArrows });
  const add = (some) => list.append(...some.map((make) => make()));
  add(items.slice(0, SHOWN));
  if (items.length > SHOWN) {
    const more = h(
      "li",
      { class: "rest" },
      h(
        "button",
        {
          type: "button",
          class: "quiet",
          onclick: () => {
            more.remove();
            add(items.slice(SHOWN));
          },
        },
        `Show ${count(items.length - SHOWN)} more codes`,
      ),
    );
    list.append(more);
  }
  return list;
}

function leaf(name) {
  const cells = h("span", { class: "cells" });
  firstRow(name, cells);
  return h(
    "li",
    { class: "leaf" },
    h("a", { href: address("/table", { name }) }, tableName(name)),
    cells,
    h(
      "a",
      { class: "button quiet", href: address("/", { table: name }), "aria-label": `Search with ${name}` },
      icon("search"),
      "Search",
    ),
  );
}

/** A code; opened, it shows the next level. */
function branch(prefix, child, most) {
  const path = [...prefix, child.code];
  const inner = h("div", { class: "inner", hidden: true });
  const examples = child.examples ?? [];
  const cells = h("span", { class: "cells" });
  let loaded = false;
  const button = h(
    "button",
    {
      type: "button",
      class: "branch",
      "aria-expanded": "false",
      onclick: async () => {
        const open = button.getAttribute("aria-expanded") !== "true";
        button.setAttribute("aria-expanded", String(open));
        inner.hidden = !open;
        if (!open || loaded) return;
        loaded = true;
        inner.replaceChildren(waiting(3));
        try {
          const node = await get("/api/tree", { prefix: path.join("-") });
          inner.replaceChildren(contents(node));
          announce(few(node) ? some(node.tables, "table") : some(node.children.length, "code"));
        } catch (error) {
          loaded = false;
          inner.replaceChildren(failure(error));
        }
      },
    },
    icon("right"),
    h("span", { class: "code" }, h("span", { class: "unseen" }, "code "), String(child.code)),
    bar(child.tables / most),
    h("span", { class: "many" }, some(child.tables, "table")),
    h("span", { class: "of" }, child.group ? [swatch(slotOf(child.group.id)), child.group.name] : null),
    h("span", { class: "such" }, cells),
  );
  if (examples.length) watch(button, () => firstRow(examples[0], cells));
  return h(
    "li",
    {},
    h(
      "div",
      { class: "row" },
      button,
      h(
        "a",
        {
          class: "button quiet",
          href: address("/tree", { prefix: path.join("-") }),
          "aria-label": `Go to code ${path.join("-")}`,
        },
        "Go",
      ),
    ),
    inner,
  );
}

const seen = new IntersectionObserver((entries) => {
  for (const entry of entries.reverse()) {
    // the queue is last in, first out
    if (!entry.isIntersecting) continue;
    seen.unobserve(entry.target);
    waitingFor.get(entry.target)?.();
  }
});
const waitingFor = new WeakMap();

function watch(element, act) {
  waitingFor.set(element, act);
  seen.observe(element);
}

const short = (cell) => (cell.length > 30 ? `${cell.slice(0, 28)}…` : cell);

/** Show the first row of a table. */
function firstRow(name, element) {
  queue.add(async () => {
    const table = await preview({ table: name }, 3);
    element.textContent = (table.sample[0] ?? [])
      .filter((cell) => cell !== null)
      .slice(0, 6)
      .map(short)
      .join(" · ");
  });
}

function byArrows(event) {
  const button = event.target.closest("button.branch");
  if (!button) return;
  const open = button.getAttribute("aria-expanded") === "true";
  const all = [...main.querySelectorAll("button.branch")].filter((one) => one.offsetParent !== null);
  const at = all.indexOf(button);
  const acts = {
    ArrowDown: () => all[at + 1]?.focus(),
    ArrowUp: () => all[at - 1]?.focus(),
    ArrowRight: () => (open ? all[at + 1]?.focus() : button.click()),
    ArrowLeft: () =>
      open ? button.click() : button.closest(".inner")?.parentElement.querySelector("button.branch")?.focus(),
  };
  if (!acts[event.key]) return;
  event.preventDefault();
  event.stopPropagation();
  acts[event.key]();
}

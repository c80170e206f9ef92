// The ranked tables. They are shown at once; the numbers of matching columns are filled in later.

import { bar, h, some, tableName } from "./dom.js";
import { Queue } from "./lake.js";
import { rowsOf } from "./picker.js";
import { pairing } from "./session.js";

const DRAWN = 12; // tables with more columns get no marks
const queue = new Queue(2);

/** The list, with functions that mark the compared table and set the checkboxes. */
export function resultList(session, { open, tick }) {
  queue.clear();
  const items = new Map(
    session.hits.map((hit) => [hit.table, item(hit, session.columns.length, open, tick)]),
  );
  const element = h(
    "ol",
    { class: "hits", onkeydown: byArrows },
    [...items.values()].map((one) => one.element),
  );
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries.reverse()) {
      // the queue is last in, first out
      if (!entry.isIntersecting) continue;
      seen.unobserve(entry.target);
      queue.add(() => fillIn(session, entry.target.dataset.hit, items));
    }
  });
  for (const one of items.values()) seen.observe(one.element);
  return {
    element,
    mark(table) {
      for (const [name, one] of items) {
        one.button.setAttribute("aria-pressed", String(name === table));
        one.element.classList.toggle("open", name === table);
      }
    },
    tick(names) {
      for (const [name, one] of items) {
        one.box.checked = names.includes(name);
        one.element.classList.toggle("ticked", one.box.checked);
      }
    },
  };
}

function item(hit, wanted, open, tick) {
  const box = h("input", {
    type: "checkbox",
    "data-tick": hit.table,
    "aria-label": `Add ${hit.table} to the union`,
    onchange: () => tick(hit.table, box.checked),
  });
  const columns = h("span", { class: "shared" }, shared(Array(wanted).fill("none"), "?"));
  const button = h(
    "button",
    { type: "button", class: "hit", "aria-pressed": "false", onclick: () => open(hit.table) },
    h(
      "span",
      { class: "first" },
      h("span", { class: "rank" }, String(hit.rank)),
      tableName(hit.table),
      h("span", { class: "score" }, h("span", { class: "unseen" }, "score "), hit.score.toFixed(3)),
    ),
    bar(hit.score),
    h(
      "span",
      { class: "second" },
      columns,
      hit.rows === null ? null : h("span", {}, rowsOf(hit)),
      h("code", { title: "identifier" }, h("span", { class: "unseen" }, "identifier "), hit.sid),
    ),
  );
  return { element: h("li", { "data-hit": hit.table }, box, button), box, button, columns };
}

/** How many columns of the query have a match, as a row of marks and in words. */
function shared(states, paired) {
  const marks = states.length > DRAWN ? [] : states.map((state) => h("i", { class: state }));
  return [
    h("span", { class: "dots", "aria-hidden": "true" }, marks),
    h("span", {}, `${paired} of ${some(states.length, "column")}`),
  ];
}

async function fillIn(session, table, items) {
  const states = pairing(await session.align(table), session.chosen(table)).map((row) => row.state);
  items
    .get(table)
    .columns.replaceChildren(
      ...shared(states, states.filter((state) => state === "on" || state === "chosen").length),
    );
}

function byArrows(event) {
  if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
  const buttons = [...event.currentTarget.querySelectorAll("button.hit")];
  const at = buttons.indexOf(document.activeElement);
  if (at < 0) return;
  event.preventDefault();
  buttons[Math.max(0, Math.min(buttons.length - 1, at + (event.key === "ArrowDown" ? 1 : -1)))].focus();
}

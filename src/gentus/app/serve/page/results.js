// The ranked tables, each with its verdict.

import { bar, h, tableName } from "./dom.js";
import { rowsOf } from "./picker.js";
import { badge, copyOf, fits, matched, percent, reason, sentence } from "./verdict.js";

const DRAWN = 12; // tables with more columns get no marks

/** The list, with functions that mark the compared table, set the checkboxes and filter. */
export function resultList(session, { open, tick }) {
  const items = new Map(session.hits.map((hit) => [hit.table, item(session, hit, open, tick)]));
  const element = h(
    "ol",
    { class: "hits", onkeydown: byArrows },
    [...items.values()].map((one) => one.element),
  );
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
    filter(fitting) {
      for (const hit of session.hits) items.get(hit.table).element.hidden = fitting && !fits(hit);
    },
  };
}

function item(session, hit, open, tick) {
  const box = h("input", {
    type: "checkbox",
    "data-tick": hit.table,
    "aria-label": `Add ${hit.table} to the union`,
    onchange: () => tick(hit.table, box.checked),
  });
  const copy = copyOf(session, hit);
  const button = h(
    "button",
    { type: "button", class: "hit", "aria-pressed": "false", onclick: () => open(hit.table) },
    h(
      "span",
      { class: "first" },
      h("span", { class: "rank" }, String(hit.rank)),
      tableName(hit.table),
      h("span", { class: "score" }, h("span", { class: "unseen" }, "score "), percent(hit.score)),
    ),
    bar(hit.score),
    h(
      "span",
      { class: "second" },
      badge(hit),
      h("span", { class: "shared" }, marks(session.columns, hit.columns), matched(hit)),
      hit.rows === null ? null : h("span", { class: "size" }, rowsOf(hit)),
    ),
    reason(hit),
    copy ? h("span", { class: "said copy" }, sentence(copy)) : null,
  );
  return { element: h("li", { "data-hit": hit.table, class: hit.fit }, box, button), box, button };
}

/** Which columns of the query have a match, as a row of marks. */
function marks(names, { query, matched, pairs }) {
  if (query > DRAWN) return null;
  const ours = new Set(pairs.map(([name]) => name));
  const states =
    names.length === query // else some are empty, and were not compared
      ? names.map((name) => ours.has(name))
      : Array.from({ length: query }, (_, at) => at < matched);
  return h(
    "span",
    { class: "dots", "aria-hidden": "true" },
    states.map((on) => h("i", { class: on ? "on" : null })),
  );
}

function byArrows(event) {
  if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
  const buttons = [...event.currentTarget.querySelectorAll("li:not([hidden]) button.hit")];
  const at = buttons.indexOf(document.activeElement);
  if (at < 0) return;
  event.preventDefault();
  buttons[Math.max(0, Math.min(buttons.length - 1, at + (event.key === "ArrowDown" ? 1 : -1)))].focus();
}

// The columns of two tables, with curves between matches; the higher the score, the thicker.

import { h, s } from "./dom.js";

const STEP = 54; // from one column to the next, as the style sheet has it
const MIDDLE = 23; // of a column
const LEFTOVERS = 10; // unmatched columns drawn of a wide table

/** The drawing, and a function that highlights the pair of a query column. */
export function drawing(queryName, tableName, alignment, rows, samples, { toggle }) {
  const drawn = rows.filter((row) => row.table !== null);
  const paired = new Map(drawn.map((row) => [row.table, row]));
  const ours = shorten(
    rows.map((row) => row.name),
    (name) => drawn.some((row) => row.name === name),
  );
  const theirs = shorten(alignment.table_columns, (name) => paired.has(name));
  const place = new Map(theirs.shown.map((name, at) => [name, at]));
  const own = new Map(ours.shown.map((name, at) => [name, at]));
  const elements = new Map(rows.map((row) => [row.name, []])); // elements per column of the query
  const why = h("div", { class: "why", hidden: true });

  const hover = (row) => ({
    onmouseenter: () => light(row.name),
    onmouseleave: () => light(null),
    onclick: () => toggle(row),
  });
  const remember = (row, ...some) => some.forEach((one) => elements.get(row.name).push(one));
  const state = (row) => (row === null ? "none" : row.state);

  const left = ours.shown.map((name) => {
    const row = rows.find((one) => one.name === name);
    const chip = column(name, state(row), samples.query, row.table === null ? {} : hover(row));
    remember(row, chip);
    return chip;
  });
  const right = theirs.shown.map((name) => {
    const row = paired.get(name) ?? null;
    const chip = column(name, state(row), samples.table, row === null ? {} : hover(row));
    if (row) remember(row, chip);
    return chip;
  });
  const height = STEP * Math.max(left.length, right.length);
  const curves = drawn.map((row) => {
    const from = own.get(row.name) * STEP + MIDDLE;
    const to = place.get(row.table) * STEP + MIDDLE;
    const d = `M0 ${from}C50 ${from} 50 ${to} 100 ${to}`;
    const score = row.score ?? 1;
    const line = s("path", {
      d,
      class: `curve ${row.state}`,
      "stroke-width": (1 + 3.5 * score * score).toFixed(2),
      opacity: (0.35 + 0.65 * score).toFixed(2),
    });
    const reach = s("path", { d, class: "reach", ...hover(row) });
    remember(row, line);
    return [line, reach];
  });

  function light(name) {
    const row = rows.find((one) => one.name === name && one.table !== null) ?? null;
    element.classList.toggle("lit", row !== null);
    for (const [column, some] of elements)
      for (const one of some) one.classList.toggle("on-it", row !== null && column === name);
    why.hidden = row === null;
    if (row === null) return;
    const middle = ((own.get(row.name) + place.get(row.table)) / 2) * STEP + MIDDLE;
    why.style.top = `${middle}px`;
    why.replaceChildren(
      h(
        "strong",
        {},
        row.state === "off" ? "switched off" : row.score === null ? "chosen" : row.score.toFixed(2),
      ),
      ` ${row.state === "chosen" ? "by you" : row.reason}`,
    );
  }

  const svg = s("svg", { viewBox: `0 0 100 ${height}`, preserveAspectRatio: "none" }, curves);
  svg.style.height = `${height}px`;
  const element = h(
    "div",
    { class: "drawing", "aria-hidden": "true" }, // the list below it has the same information
    h(
      "div",
      { class: "side" },
      h("div", { class: "whose" }, queryName),
      left,
      ours.more ? h("div", { class: "rest" }, `and ${ours.more} more`) : null,
    ),
    h("div", { class: "between" }, h("div", { class: "whose" }), h("div", { class: "lines" }, svg, why)),
    h(
      "div",
      { class: "side" },
      h("div", { class: "whose" }, tableName),
      right,
      theirs.more ? h("div", { class: "rest" }, `and ${theirs.more} more`) : null,
    ),
  );
  return { element, light };
}

/** All matched columns, and some of the unmatched. */
function shorten(names, paired) {
  let free = 0;
  const shown = names.filter((name) => paired(name) || (free += 1) <= LEFTOVERS);
  return { shown, more: names.length - shown.length };
}

function column(name, state, sample, properties) {
  const known = sample?.columns.find((one) => one.name === name);
  const examples = known ? known.examples.join(" · ") : "";
  return h(
    "div",
    { class: `column ${state}`, ...properties },
    h("span", {}, name),
    h("small", {}, examples || " "),
  );
}

// Rows of tables, as text.

import { count, h } from "./dom.js";

/** Columns that are drawn of a very wide table; more would make the page slow. */
export const MOST_COLUMNS = 100;

const NUMBER = /^[+-]?[\d.,\s]*\d\s*%?$/;

/** Whether the cells of a column are numbers, which align right. */
export function numeric(cells) {
  const filled = cells.filter((cell) => cell !== null && cell !== "");
  return filled.length > 0 && filled.every((cell) => NUMBER.test(cell));
}

/** One cell; an empty one says so to screen readers. */
export function cell(value, { right = false, dim = false } = {}) {
  const classes = [right && "right", dim && "dim"].filter(Boolean).join(" ") || null;
  if (value === null || value === undefined)
    return h("td", { class: `${classes ?? ""} empty`.trim() }, h("span", { class: "unseen" }, "empty"));
  return h("td", { class: classes, title: value.length > 24 ? value : null }, value);
}

/** Rows under named columns; wide tables scroll. A line separates rows of different origin.
 *
 * Of a very wide table the first columns are drawn, and those that tell the origin. */
export function grid(label, columns, rows, origin = null) {
  const places = [...columns.keys()].filter((at) => at < MOST_COLUMNS || (origin !== null && at >= origin));
  if (places.length === columns.length) return drawn(label, columns, rows, origin);
  const some = rows.map((row) => places.map((at) => row[at]));
  const kept = places.map((at) => columns[at]);
  return h(
    "div",
    {},
    drawn(label, kept, some, origin === null ? null : places.indexOf(origin)),
    h("p", { class: "soft" }, `${count(kept.length)} of ${count(columns.length)} columns are shown.`),
  );
}

function drawn(label, columns, rows, origin) {
  const right = columns.map((_, at) => numeric(rows.map((row) => row[at])));
  return scroller(
    label,
    h(
      "table",
      { class: "grid" },
      h("caption", { class: "unseen" }, label),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          columns.map((column, at) =>
            h(
              "th",
              { scope: "col", class: right[at] ? "right" : null },
              column.name,
              column.type ? h("small", {}, column.type) : null,
            ),
          ),
        ),
      ),
      h(
        "tbody",
        {},
        rows.map((row, at) =>
          h(
            "tr",
            { class: begins(rows, at, origin) ? "begins" : null },
            columns.map((_, place) => cell(row[place], { right: right[place] })),
          ),
        ),
      ),
    ),
  );
}

const begins = (rows, at, origin) => at > 0 && origin !== null && rows[at][origin] !== rows[at - 1][origin];

/** A button that shows all columns, where only some are drawn. */
export const showAll = (total, shown, what, onclick) =>
  total > shown
    ? h(
        "p",
        { class: "soft more" },
        `The first ${count(shown)} ${what} are shown. `,
        h("button", { type: "button", onclick }, `Show all ${count(total)} ${what}`),
      )
    : null;

/** A box that scrolls sideways and can be reached with the keyboard. */
export function scroller(label, ...children) {
  return h("div", { class: "scroller", role: "region", "aria-label": label, tabindex: "0" }, ...children);
}

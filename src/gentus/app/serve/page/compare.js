// Two tables side by side: which columns match and why, and rows of both.

import { announce, bar, failure, h, some, tableName, waiting } from "./dom.js";
import { drawing } from "./drawing.js";
import { cell, MOST_COLUMNS, numeric, scroller, showAll } from "./grid.js";
import { preview } from "./lake.js";
import { rowsOf } from "./picker.js";
import { address } from "./route.js";
import { leftOver, pairing } from "./session.js";
import { badge, copyOf, matched, reason, scored, sentence } from "./verdict.js";

const ROWS = 5; // of each table

/** The comparison of the query with a table; it loads its contents itself. */
export function comparison(session, table, { ticked, tick }) {
  const hit = session.hit(table);
  const box = h("input", { type: "checkbox", "data-tick": table, onchange: () => tick(box.checked) });
  box.checked = ticked();
  const body = h("div", { class: "body" }, waiting(8));
  const element = h(
    "article",
    { class: "comparison" },
    h(
      "header",
      {},
      h("h2", {}, tableName(table)),
      h("label", { class: "button take" }, box, "Add to the union"),
    ),
    hit ? verdict(session, hit) : null,
    h(
      "p",
      { class: "soft facts" },
      h("a", { href: address("/table", { name: table }) }, "All columns"),
      h("a", { href: address("/", { table }) }, "Search with it"),
    ),
    body,
  );
  session
    .align(table)
    .then((alignment) => fill(body, session, table, alignment))
    .catch((error) => body.replaceChildren(failure(error)));
  return element;
}

/** How far the table fits, why not further, and whether its rows are known already. */
function verdict(session, hit) {
  const copy = copyOf(session, hit);
  return h(
    "div",
    { class: "verdict" },
    h("p", {}, badge(hit), h("span", {}, matched(hit)), scored(hit)),
    reason(hit),
    copy ? h("p", { class: "said copy" }, sentence(copy)) : null,
  );
}

function fill(body, session, table, alignment) {
  if (alignment.missing) {
    body.replaceChildren(failure(new Error(`${table}: ${alignment.missing}`)));
    return;
  }
  const samples = { query: null, table: null };
  let shown = MOST_COLUMNS;
  const change = (column, own) => {
    session.choose(table, column, own);
    draw();
  };

  function draw() {
    const all = pairing(alignment, session.chosen(table));
    const left = leftOver(alignment, all);
    const rows = all.slice(0, shown);
    const more = showAll(all.length, shown, "columns", () => {
      shown = Infinity;
      draw();
    });
    const focused = document.activeElement?.dataset?.column; // redrawing would lose it
    const picture = drawing(session.name, table, alignment, rows, samples, {
      toggle: (row) => change(row.name, row.state === "on" || row.state === "chosen" ? null : undefined),
    });
    const reasons = pairList(rows, left, change, picture.light);
    body.replaceChildren(
      picture.element,
      difference(session.hit(table), alignment),
      h("h3", {}, alignment.pairs.length ? "Why they match" : "No column matches"),
      reasons,
      more ?? "",
      h("h3", {}, "Rows of both tables"),
      samples.query && samples.table
        ? stacked(session, table, rows, left.slice(0, shown), samples)
        : waiting(6),
    );
    if (focused !== undefined) {
      [...body.querySelectorAll("[data-column]")].find((one) => one.dataset.column === focused)?.focus();
    }
  }

  draw();
  Promise.all([session.preview(), preview({ table })])
    .then(([query, other]) => {
      samples.query = query;
      samples.table = other;
      draw();
    })
    .catch((error) => body.lastElementChild.replaceWith(failure(error)));
}

/** A note where the rows of both tables match other columns than the index told. */
function difference(hit, alignment) {
  const told = new Set((hit?.columns.pairs ?? []).map((pair) => pair.join("\n")));
  const found = alignment.pairs.map((pair) => `${pair.query.name}\n${pair.table.name}`);
  if (!hit || (told.size === found.length && found.every((pair) => told.has(pair)))) return "";
  const columns = some(alignment.query_columns.length, "column");
  return h(
    "p",
    { class: "soft note" },
    `With both tables open, ${found.length} of ${columns} match; a union uses these. `,
    "The verdict was given without opening them.",
  );
}

/** Every column of the query with its match, score and reason; the user can change it. */
function pairList(rows, left, change, light) {
  return h(
    "table",
    { class: "pairs" },
    h("caption", { class: "unseen" }, "Columns of your table, and their matches"),
    h(
      "thead",
      { class: "unseen" },
      h(
        "tr",
        {},
        ["Use", "Your column", "Its column", "Score", "Reason"].map((name) =>
          h("th", { scope: "col" }, name),
        ),
      ),
    ),
    h(
      "tbody",
      {},
      rows.map((row) => pairRow(row, left, change, light)),
    ),
    left.length
      ? h(
          "tfoot",
          {},
          h(
            "tr",
            {},
            h("td", {}),
            h("th", { scope: "row" }, "Unmatched"),
            h(
              "td",
              { colspan: "3" },
              h(
                "ul",
                { class: "chips faint" },
                left.slice(0, 40).map((name) => h("li", {}, name)),
                left.length > 40 ? h("li", {}, `and ${left.length - 40} more`) : null,
              ),
            ),
          ),
        )
      : null,
  );
}

function pairRow(row, left, change, light) {
  const used = row.state === "on" || row.state === "chosen";
  const paired = row.pair !== null || used;
  const box = h("input", {
    type: "checkbox",
    "data-column": row.name,
    "aria-label": `Use ${row.table ?? "no column"} for ${row.name}`,
    onchange: () => {
      change(row.name, box.checked ? undefined : row.pair === null ? undefined : null);
      announce(box.checked ? `${row.name} is filled` : `${row.name} is left empty`);
    },
  });
  box.checked = used;
  const pick = h(
    "select",
    {
      "data-column": row.name,
      "aria-label": `Column for ${row.name}`,
      onchange: () => change(row.name, pick.value === "" ? undefined : pick.value),
    },
    h("option", { value: "" }, "nothing"),
    left.map((name) => h("option", { value: name }, name)),
  );
  const shown = row.state === "off" || used;
  return h(
    "tr",
    {
      class: row.state,
      onmouseenter: () => light(row.name),
      onmouseleave: () => light(null),
      onfocusin: () => light(row.name),
      onfocusout: () => light(null),
    },
    h("td", { class: "use" }, paired ? box : null),
    h("th", { scope: "row" }, row.name),
    h(
      "td",
      { class: "its" },
      shown ? row.table : left.length ? pick : h("span", { class: "soft" }, "nothing"),
    ),
    h(
      "td",
      { class: "sure" },
      row.score === null ? null : [bar(row.score), h("span", {}, row.score.toFixed(2))],
    ),
    h("td", { class: "reason" }, row.state === "none" ? "no similar column" : row.reason),
  );
}

/** Rows of the query, then of the table, in the columns of the query; unmatched columns come last. */
function stacked(session, table, rows, left, samples) {
  const own = new Map(samples.query.columns.map((column, at) => [column.name, at]));
  const its = new Map(samples.table.columns.map((column, at) => [column.name, at]));
  const places = [
    ...rows.map((row) => ({
      query: own.get(row.name),
      table: row.state === "on" || row.state === "chosen" ? its.get(row.table) : undefined,
      name: row.name,
      under: row.state === "on" || row.state === "chosen" ? row.table : null,
    })),
    ...left.map((name) => ({ query: undefined, table: its.get(name), name: null, under: name })),
  ];
  const right = places.map((place) =>
    numeric([
      ...samples.query.sample.map((row) => row[place.query] ?? null),
      ...samples.table.sample.map((row) => row[place.table] ?? null),
    ]),
  );
  const part = (heading, sampled, names, side) =>
    h(
      "tbody",
      { class: side },
      h(
        "tr",
        { class: "whose" },
        h(
          "th",
          { colspan: String(places.length), scope: "rowgroup" },
          h("span", {}, tableName(heading), h("small", {}, rowsOf(sampled))),
        ),
      ),
      h(
        "tr",
        { class: "names" },
        names.map((name, at) => h("th", { scope: "col", class: right[at] ? "right" : null }, name ?? "")),
      ),
      sampled.sample.slice(0, ROWS).map((row) =>
        h(
          "tr",
          {},
          places.map((place, at) =>
            place[side] === undefined
              ? h("td", { class: "void" })
              : cell(row[place[side]], { right: right[at], dim: place.query === undefined }),
          ),
        ),
      ),
    );
  const label = `Rows of ${session.name} and of ${table}, one after the other`;
  return scroller(
    label,
    h(
      "table",
      { class: "grid stacked" },
      h("caption", { class: "unseen" }, label),
      part(
        session.name,
        samples.query,
        places.map((place) => place.name),
        "query",
      ),
      part(
        table,
        samples.table,
        places.map((place) => place.under),
        "table",
      ),
    ),
  );
}

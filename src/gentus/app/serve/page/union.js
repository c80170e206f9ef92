// The union: which column of which table goes where, a preview of the rows, and the download.

import { fetchFile, post } from "./api.js";
import { announce, bytes, failure, h, icon, some, tableName, waiting } from "./dom.js";
import { grid, MOST_COLUMNS, scroller, showAll } from "./grid.js";
import { edited } from "./session.js";
import { badge, copyOf, fits, percent, spoken } from "./verdict.js";

const ROWS = 50; // of the preview
const PAUSE = 120; // ms to wait for further clicks

/** The union of the query and some tables; it loads its contents itself. */
export function unionView(session, tables, back) {
  const options = { names: true, keep_extra: false, distinct: false, provenance: true };
  const kept = { format: "csv", guard: true };
  let used = tables; // those with a matching column
  let plan = null; // from the server
  let current = null; // with the user's changes
  let shown = MOST_COLUMNS;
  let turn = 0;
  let timer = 0;

  const matrix = h("div", { class: "matrix" }, waiting(6));
  const rows = h("div", { class: "preview", "aria-busy": "true" }, waiting(8));
  const heading = h("span", {}, ` and ${some(tables.length, "table")}`);
  const size = h("p", { class: "soft facts" }, "Reading all rows ...");
  const notes = h("div", { class: "notes" });
  const save = h(
    "button",
    { type: "button", class: "primary", disabled: true, onclick: download },
    icon("download"),
    "Download",
  );

  const option = (name, label, hint) => {
    const box = h("input", {
      type: "checkbox",
      onchange: () => {
        options[name] = box.checked;
        propose();
      },
    });
    box.checked = options[name];
    return h("label", { title: hint }, box, label);
  };
  const guard = h("input", { type: "checkbox", onchange: () => (kept.guard = guard.checked) });
  guard.checked = kept.guard;
  const guarded = h(
    "label",
    { title: "puts ' before text that a spreadsheet would run as a formula" },
    guard,
    "Safe for spreadsheets",
  );
  const format = h(
    "select",
    {
      "aria-label": "Format",
      onchange: () => {
        kept.format = format.value;
        guarded.classList.toggle("gone", kept.format !== "csv");
      },
    },
    h("option", { value: "csv" }, "CSV"),
    h("option", { value: "xlsx" }, "Excel"),
    h("option", { value: "parquet" }, "Parquet"),
  );

  async function propose() {
    const now = (turn += 1);
    try {
      const answer = await planned();
      if (now !== turn || !rows.isConnected) return; // an answer for a view that was left says nothing
      plan = answer;
      heading.textContent = ` and ${some(used.length, "table")}`;
      draw();
    } catch (error) {
      if (now === turn) fail(error);
    }
  }

  /** The plan of the server, which refuses a table without a matching column: it is left out. */
  async function planned() {
    const plan = () => session.ask((query) => post("/api/union/plan", { query, tables: used, ...options }));
    try {
      return await plan();
    } catch (error) {
      if (error.status !== 422) throw error;
      const matches = await Promise.all(used.map(async (name) => (await session.align(name)).pairs.length));
      if (matches.every(Boolean)) throw error;
      if (!matches.some(Boolean)) throw new Error("No column of the selected tables matches one of yours.");
      used = used.filter((_, at) => matches[at]);
      return plan();
    }
  }

  /** Apply the user's changes, show them at once, and request the rows. */
  function draw() {
    current = edited(plan, session);
    const focused = document.activeElement?.dataset?.cell;
    const more = showAll(plan.columns.length, shown, "columns", () => {
      shown = Infinity;
      draw();
    });
    matrix.replaceChildren(
      ...[table(session, plan, current.plan, change, shown), more].filter((one) => one !== null),
    );
    if (focused)
      [...matrix.querySelectorAll("[data-cell]")].find((one) => one.dataset.cell === focused)?.focus();
    clearTimeout(timer);
    timer = setTimeout(show, PAUSE);
  }

  function change(name, column, own) {
    session.choose(name, column, own);
    draw();
  }

  async function show() {
    const now = (turn += 1);
    rows.setAttribute("aria-busy", "true");
    const leftOut = [
      ...tables
        .filter((name) => !used.includes(name))
        .map((name) => `${name} is left out: no column matches.`),
      ...current.skipped.map((name) => `${name} is left out: none of its columns is used.`),
    ];
    if (!current.plan.tables.length) {
      fail(new Error("No column of any table is used. Switch on at least one."));
      return;
    }
    try {
      const answer = await session.ask((query) =>
        post("/api/union/preview", { plan: current.plan, query, rows: ROWS }),
      );
      if (now !== turn || !rows.isConnected) return; // an answer for a view that was left says nothing
      save.disabled = false;
      const columns = answer.columns.map(({ name, type }) => ({ name, type: readable(type) }));
      rows.replaceChildren(
        grid("Rows of the union", columns, answer.rows, current.plan.provenance ? columns.length - 2 : null),
      );
      rows.setAttribute("aria-busy", "false");
      const total = answer.total === null ? "" : `${some(answer.total, "row")} and `;
      size.textContent = `${total}${some(columns.length, "column")}. Below are ${some(answer.rows.length, "row")}, some of every table.`;
      notes.replaceChildren(
        remarks([...doubts(session, used), ...(plan.notes ?? []), ...leftOut, ...answer.notes]),
      );
      announce(size.textContent);
    } catch (error) {
      if (now === turn) fail(error);
    }
  }

  function fail(error) {
    save.disabled = true;
    rows.setAttribute("aria-busy", "false");
    rows.replaceChildren(failure(error));
    size.textContent = "";
    if (plan === null) matrix.replaceChildren();
  }

  async function download() {
    save.disabled = true;
    save.lastChild.data = "Writing ...";
    try {
      const wanted = {
        plan: current.plan,
        format: kept.format,
        guard_formulas: kept.guard && kept.format === "csv",
      };
      const file = await session.ask((query) => fetchFile("/api/union/download", { ...wanted, query }));
      keep(file.content, file.name ?? `union.${kept.format}`);
      announce(`Downloaded, ${bytes(file.content.size)}`);
    } catch (error) {
      notes.replaceChildren(failure(error));
    } finally {
      save.disabled = false;
      save.lastChild.data = "Download";
    }
  }

  propose();
  return h(
    "div",
    { class: "union" },
    h("a", { class: "back", href: back }, icon("back"), "Results"),
    h("h1", {}, "Union of ", tableName(session.name), heading),
    size,
    h(
      "div",
      { class: "controls" },
      h(
        "fieldset",
        {},
        h("legend", { class: "unseen" }, "Options"),
        option(
          "keep_extra",
          "Keep columns you do not have",
          "adds columns that your table does not have, at the end",
        ),
        option("distinct", "Remove duplicate rows", "keeps the first of equal rows"),
        option("provenance", "Add the source of each row", "adds _source_table and _source_row"),
      ),
      h("div", { class: "saving" }, guarded, format, save),
    ),
    h("h2", {}, "Columns"),
    h("p", { class: "soft" }, "Click a column to switch it off or on."),
    matrix,
    notes,
    h("h2", {}, "Rows"),
    rows,
  );
}

/** Columns of the result down, the first ones at least, tables across; every pair can be switched off. */
function table(session, plan, current, change, most) {
  const from = new Map(plan.query.columns.map((column) => [column.into, column.from]));
  const placed = (tables) =>
    new Map(tables.map((one) => [one.name, new Map(one.columns.map((column) => [column.into, column]))]));
  const before = placed(plan.tables);
  const now = placed(current.tables);
  const types = new Map(plan.columns.map((column) => [column.name, column]));
  const line = (column) => {
    const own = from.get(column);
    const kind = types.get(column);
    return h(
      "tr",
      {},
      h(
        "th",
        { scope: "row", title: kind.note || null },
        h("span", {}, column),
        h("small", {}, readable(kind.type ?? kind.likely_type), kind.note ? ` · ${kind.note}` : ""),
      ),
      plan.tables.map((one) => {
        const found = before.get(one.name).get(column) ?? null;
        const used = now.get(one.name)?.get(column) ?? null;
        const shown = used ?? found;
        if (shown === null) return h("td", { class: "none" }, h("span", { class: "unseen" }, "empty"));
        if (own === undefined) return h("td", {}, h("span", { class: "link fixed" }, shown.from));
        return h(
          "td",
          {},
          h(
            "button",
            {
              type: "button",
              class: "link",
              "aria-pressed": String(used !== null),
              "data-cell": `${one.name}\n${column}`,
              title:
                [shown.score ? shown.score.toFixed(2) : "", shown.reason ?? "", shown.note ?? ""]
                  .filter(Boolean)
                  .join("; ") || null,
              onclick: () => change(one.name, own, used !== null ? null : undefined),
            },
            shown.from,
          ),
        );
      }),
    );
  };
  return scroller(
    "Which column goes where",
    h(
      "table",
      {},
      h(
        "caption",
        { class: "unseen" },
        "Columns of the union, and the columns of each table that go into them",
      ),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h("th", { scope: "col" }, tableName(session.name)),
          plan.tables.map((one) =>
            h(
              "th",
              { scope: "col" },
              tableName(one.name),
              typeof one.rows === "number" ? h("small", {}, some(one.rows, "row")) : null,
              judged(session.hit(one.name)),
            ),
          ),
        ),
      ),
      h(
        "tbody",
        {},
        plan.columns.slice(0, most).map((column) => line(column.name)),
      ),
    ),
  );
}

/** The verdict on a table, in the head of its column. */
const judged = (hit) => (hit ? h("small", { class: "judged" }, badge(hit), percent(hit.score)) : null);

/** What speaks against some of the tables. */
function doubts(session, tables) {
  const hits = tables.map((name) => session.hit(name)).filter(Boolean);
  return [
    ...hits.filter((hit) => !fits(hit)).map((hit) => [`${hit.table}, fit: none: `, spoken(hit.why), "."]),
    ...hits
      .filter((hit) => hit.same_rows && [undefined, ...tables].includes(session.original(hit)?.table))
      .map((hit) => `${hit.table}: ${copyOf(session, hit)}.`),
  ];
}

const MOST_NOTES = 30; // that are listed at first

const KINDS = {
  VARCHAR: "text",
  BIGINT: "whole number",
  INTEGER: "whole number",
  DOUBLE: "number",
  BOOLEAN: "yes or no",
  DATE: "date",
  TIMESTAMP: "date and time",
};
const readable = (type) => KINDS[type] ?? (type ?? "").toLowerCase();

/** Notes on a union; of very many the first, until all are wanted. */
function remarks(lines, shown = MOST_NOTES) {
  if (!lines.length) return "";
  const list = h(
    "ul",
    {},
    lines.slice(0, shown).map((line) => h("li", {}, line)),
  );
  const box = h("div", {}, list);
  const more = showAll(lines.length, shown, "notes", () => box.replaceWith(remarks(lines, lines.length)));
  if (more) box.append(more);
  return box;
}

/** Hand a file to the browser. */
function keep(content, name) {
  const link = h("a", { href: URL.createObjectURL(content), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

// The start of a search: drop, choose or paste a table, or pick one from the lake.

import { get } from "./api.js";
import { announce, bytes, count, failure, h, icon, some, tableName } from "./dom.js";
import { examples } from "./examples.js";
import { index } from "./lake.js";
import { clipboardText, PASTE_KEYS, pastedFile } from "./paste.js";
import { address, go } from "./route.js";

const ACCEPTED =
  ".csv,.tsv,.txt,.tab,.psv,.parquet,.pq,.json,.jsonl,.ndjson,.arrow,.feather,.ipc,.xlsx,.xlsm,.xlsb,.xls,.ods,.gz,.zst";
const KINDS = ["CSV", "TSV", "Excel", "Parquet", "JSON", "Arrow"];
const SHOWN = 8; // tables that are suggested
let takeFile = () => {};

/** Listen for files that are dropped, and for rows that are pasted, anywhere on the page. */
export function listen(take) {
  takeFile = take;
  let depth = 0; // how many elements the dragged file is over
  const over = (on) => document.body.classList.toggle("dragging", on);
  const brings = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  addEventListener("dragenter", (event) => {
    if (!brings(event)) return;
    depth += 1;
    over(true);
  });
  addEventListener("dragleave", (event) => {
    if (!brings(event)) return;
    depth -= 1;
    if (depth <= 0) over(false);
  });
  addEventListener("dragover", (event) => {
    if (brings(event)) event.preventDefault();
  });
  addEventListener("drop", (event) => {
    depth = 0;
    over(false);
    if (!brings(event)) return;
    event.preventDefault();
    if (event.dataTransfer.files.length) takeFile(event.dataTransfer.files[0]);
  });
  addEventListener("paste", (event) => {
    const field = event.target.closest?.("input, textarea, select");
    if (field && field.id !== "rows") return;
    const text = event.clipboardData?.getData("text/plain") ?? "";
    const file = event.clipboardData?.files?.[0];
    if (field) event.preventDefault(); // many rows would make the field slow, and are not to be edited
    if (file && !text.trim()) takeFile(file);
    else takeText(text);
  });
}

/** Search with pasted text; the start page says why it cannot be a table, other views ignore it. */
function takeText(text) {
  const told = document.getElementById("told");
  try {
    takeFile(pastedFile(text));
  } catch (error) {
    told?.replaceChildren(failure(error));
  }
}

/** Whether a file is small enough to be sent; throws an error that says why not. */
export async function checkFile(file) {
  const { limits } = await index();
  if (file.size === 0) throw new Error(`${file.name} is empty.`);
  if (file.size > limits.upload_bytes) {
    throw new Error(
      `${file.name} has ${bytes(file.size)}; at most ${bytes(limits.upload_bytes)} are accepted. Part of its rows is enough for a search.`,
    );
  }
}

/** The start page. */
export function picker() {
  const about = h(
    "p",
    { class: "lead" },
    "GenTUS ranks the tables of the lake whose rows can be appended to yours.",
  );
  const limit = h("span", {});
  const element = h(
    "section",
    { class: "hero" },
    h("h1", {}, "Which tables can be appended to yours?"),
    about,
    dropzone(limit),
    pasting(),
    h("div", { id: "told" }),
    h("div", { class: "or", "aria-hidden": "true" }, "or pick a table from the lake"),
    chooser(),
    examples(),
  );
  index()
    .then((facts) => {
      about.textContent = `Of ${some(facts.tables, "table")} in the lake, GenTUS ranks those whose rows can be appended to yours.`;
      limit.textContent = `also compressed by gzip or zstd; up to ${bytes(facts.limits.upload_bytes)}`;
      if (facts.tables === 0) element.replaceChildren(...noTables(facts));
    })
    .catch((error) => about.replaceWith(failure(error)));
  return element;
}

function dropzone(limit) {
  const input = h("input", {
    type: "file",
    id: "file",
    class: "unseen",
    accept: ACCEPTED,
    onchange: () => input.files.length && takeFile(input.files[0]),
  });
  return h(
    "div",
    { class: "dropzone" },
    input,
    h(
      "label",
      { for: "file" },
      icon("upload"),
      h("strong", {}, "Drop a table here, or ", h("u", {}, "choose a file")),
      h(
        "span",
        { class: "kinds" },
        KINDS.map((kind) => [h("span", {}, kind), " "]),
      ),
      limit,
    ),
  );
}

/** A button that searches with the clipboard; where the browser does not allow that, a field to paste into. */
function pasting() {
  const field = h("textarea", {
    id: "rows",
    rows: "3",
    spellcheck: "false",
    "aria-label": "Rows of your table",
    placeholder: "Paste here",
    hidden: true,
  });
  const button = h(
    "button",
    {
      type: "button",
      onclick: async () => {
        const text = await clipboardText();
        if (text !== null) takeText(text);
        else {
          field.hidden = false;
          field.focus();
        }
      },
    },
    icon("paste"),
    "Paste",
  );
  return h(
    "div",
    { class: "pasting" },
    button,
    h(
      "span",
      {},
      "rows that you copied in a spreadsheet, with their header.",
      h("span", { class: "keys" }, " ", h("kbd", {}, PASTE_KEYS), " does the same."),
    ),
    field,
  );
}

/** What to do about an index without tables. */
function noTables({ name }) {
  return [
    h("h1", {}, "This index has no tables yet"),
    h("p", { class: "lead" }, "There is nothing to search in. Add tables, then reload this page:"),
    h("pre", { class: "todo" }, `gentus add ${name} FILES\ngentus sync ${name}`),
    h(
      "p",
      { class: "soft" },
      "The first adds files; the second finds all tables of the folder that the index was built from.",
    ),
  ];
}

/** A field that suggests tables of the lake while one types. */
function chooser() {
  let proposed = [];
  let active = -1;
  let asked = 0;
  const list = h("ul", {
    id: "proposals",
    role: "listbox",
    "aria-label": "Tables of the lake",
    hidden: true,
  });
  const input = h("input", {
    type: "text",
    role: "combobox",
    id: "table",
    "aria-label": "A table of the lake",
    "aria-autocomplete": "list",
    "aria-controls": "proposals",
    "aria-expanded": "false",
    autocomplete: "off",
    spellcheck: "false",
    placeholder: "Type part of its name",
    oninput: () => propose(),
    onfocus: () => propose(),
    onblur: () => setTimeout(close, 150), // after a click on a suggestion
    onkeydown: (event) => {
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        event.preventDefault();
        if (list.hidden) propose();
        else activate(active + (event.key === "ArrowDown" ? 1 : -1));
      } else if (event.key === "Enter" && proposed.length) {
        take(proposed[Math.max(active, 0)].name);
      } else if (event.key === "Escape") {
        close();
      }
    },
  });

  function close() {
    list.hidden = true;
    active = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }

  function take(name) {
    close();
    go(address("/", { table: name }));
  }

  function activate(at) {
    active = (at + proposed.length) % proposed.length;
    [...list.children].forEach((item, number) =>
      item.setAttribute("aria-selected", String(number === active)),
    );
    const item = list.children[active];
    item?.scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", item?.id ?? "");
  }

  async function propose() {
    const now = (asked += 1);
    try {
      const answer = await get("/api/tables", { filter: input.value.trim(), limit: SHOWN });
      if (now !== asked || document.activeElement !== input) return;
      proposed = answer.tables;
      active = -1;
      input.removeAttribute("aria-activedescendant");
      list.replaceChildren(
        ...proposed.map((table, at) =>
          h(
            "li",
            {
              id: `proposal-${at}`,
              role: "option",
              "aria-selected": "false",
              onmousedown: (event) => event.preventDefault(),
              onclick: () => take(table.name),
            },
            tableName(table.name),
            h("small", {}, shape(table)),
          ),
        ),
      );
      list.hidden = !proposed.length;
      input.setAttribute("aria-expanded", String(!list.hidden));
      announce(
        proposed.length
          ? `${some(answer.total, "table")}; use the arrow keys`
          : "No table has this in its name",
      );
    } catch (error) {
      announce(error.message);
    }
  }

  const random = h(
    "button",
    {
      type: "button",
      class: "quiet",
      onclick: async () => {
        const { tables: all } = await index();
        const answer = await get("/api/tables", { offset: Math.floor(Math.random() * all), limit: 1 });
        if (answer.tables.length) take(answer.tables[0].name);
      },
    },
    icon("dice"),
    "Random table",
  );
  return h("div", { class: "chooser" }, h("div", { class: "field" }, icon("search"), input, list), random);
}

/** "12 rows"; "1,000+ rows" where only a sample was counted. */
export const rowsOf = (table) => (table.more_rows ? `${count(table.rows)}+ rows` : some(table.rows, "row"));

/** "12 rows, 4 columns", as far as known. */
export function shape(table) {
  const columns = Array.isArray(table.columns) ? table.columns.length : table.columns;
  const known = [];
  if (typeof table.rows === "number") known.push(rowsOf(table));
  if (typeof columns === "number") known.push(some(columns, "column"));
  return known.join(", ");
}

// The start of a search: drop, choose or paste a file, or pick a table from the lake.

import { get } from "./api.js";
import { announce, bytes, count, failure, h, icon, some, tableName } from "./dom.js";
import { index } from "./lake.js";
import { address, go } from "./route.js";

const ACCEPTED =
  ".csv,.tsv,.txt,.tab,.psv,.parquet,.pq,.json,.jsonl,.ndjson,.arrow,.feather,.ipc,.xlsx,.gz,.zst";
const SHOWN = 8; // tables that are suggested
let takeFile = () => {};

/** Listen for files that are dropped or pasted anywhere on the page. */
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
    if (event.target.closest?.("input, textarea, select")) return;
    const file = event.clipboardData?.files?.[0];
    const text = event.clipboardData?.getData("text/plain") ?? "";
    if (file) takeFile(file);
    else if (text.trim().includes("\n")) {
      takeFile(new File([text], text.includes("\t") ? "pasted.tsv" : "pasted.csv", { type: "text/plain" }));
    }
  });
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
    "GenTUS ranks the tables of the lake whose rows can be appended to it.",
  );
  const limit = h("span", {}, "Or paste rows from a spreadsheet.");
  index()
    .then((facts) => {
      about.textContent = `Of ${count(facts.tables)} tables in the lake, GenTUS ranks those whose rows can be appended to it.`;
      limit.textContent = `Or paste rows from a spreadsheet. Up to ${bytes(facts.limits.upload_bytes)}.`;
    })
    .catch((error) => about.replaceWith(failure(error)));
  const input = h("input", {
    type: "file",
    id: "file",
    class: "unseen",
    accept: ACCEPTED,
    onchange: () => input.files.length && takeFile(input.files[0]),
  });
  return h(
    "section",
    { class: "hero" },
    h("h1", {}, "Which tables can be appended to yours?"),
    about,
    h(
      "div",
      { class: "dropzone" },
      input,
      h(
        "label",
        { for: "file" },
        icon("upload"),
        h("strong", {}, "Drop a table here, or ", h("u", {}, "choose a file")),
        h("span", {}, "CSV, TSV, Parquet, JSON, Arrow, Excel; gzip or zstd. "),
        limit,
      ),
    ),
    h("div", { class: "or", "aria-hidden": "true" }, "or pick a table from the lake"),
    chooser(),
  );
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

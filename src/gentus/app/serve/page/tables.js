// All tables of the lake, by name.

import { get } from "./api.js";
import { announce, count, failure, h, icon, shortSid, some, tableName, waiting } from "./dom.js";
import { address, go, title } from "./route.js";

const PAGE = 50;
let parts = null;
let turn = 0;

export const view = {
  name: "tables",
  open(main, parameters) {
    const input = h("input", {
      type: "search",
      "aria-label": "Part of a name",
      placeholder: "Filter by part of the name",
      autocomplete: "off",
      spellcheck: "false",
      oninput: () => go(address("/tables", { filter: input.value.trim() || null }), { replace: true }),
    });
    input.value = parameters.get("filter") ?? "";
    const heading = h("p", { class: "soft" });
    const body = h("div", {}, waiting(12));
    parts = { input, heading, body };
    main.replaceChildren(
      h(
        "div",
        { class: "page" },
        h("h1", {}, "Tables"),
        heading,
        h("div", { class: "field" }, icon("search"), input),
        body,
      ),
    );
    follow(parameters);
  },
  update: follow,
};

async function follow(parameters) {
  const filter = parameters.get("filter") ?? "";
  const offset = Math.max(0, Number(parameters.get("offset")) || 0);
  if (document.activeElement !== parts.input) parts.input.value = filter;
  title("Tables");
  const now = (turn += 1);
  try {
    const answer = await get("/api/tables", { filter, offset, limit: PAGE });
    if (now !== turn) return;
    const last = Math.min(answer.total, offset + answer.tables.length);
    const range = answer.total > PAGE ? `, ${count(offset + 1)} to ${count(last)}` : "";
    parts.heading.textContent = `${some(answer.total, "table")}${filter ? ` with “${filter}” in the name` : ""}${range}`;
    parts.body.replaceChildren(
      answer.tables.length
        ? list(answer.tables)
        : h("p", { class: "nothing" }, "No table has this in its name."),
      pages(filter, offset, answer.total),
    );
    announce(parts.heading.textContent);
  } catch (error) {
    if (now === turn) parts.body.replaceChildren(failure(error));
  }
}

function list(tables) {
  return h(
    "table",
    { class: "listing" },
    h("caption", { class: "unseen" }, "Tables of the lake"),
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        h("th", { scope: "col" }, "Name"),
        h("th", { scope: "col", class: "right" }, "Rows"),
        h("th", { scope: "col", class: "right" }, "Columns"),
        h("th", { scope: "col" }, "Identifier"),
        h("th", { scope: "col" }, h("span", { class: "unseen" }, "Search")),
      ),
    ),
    h(
      "tbody",
      {},
      tables.map((table) =>
        h(
          "tr",
          {},
          h(
            "th",
            { scope: "row" },
            h("a", { href: address("/table", { name: table.name }) }, tableName(table.name)),
          ),
          h("td", { class: "right" }, count(table.rows), table.more_rows ? "+" : ""),
          h("td", { class: "right" }, count(table.columns)),
          h("td", { class: "sid" }, h("code", { title: table.sid }, shortSid(table.sid))),
          h(
            "td",
            { class: "act" },
            h(
              "a",
              {
                class: "button quiet",
                href: address("/", { table: table.name }),
                "aria-label": `Search with ${table.name}`,
              },
              icon("search"),
              "Search",
            ),
          ),
        ),
      ),
    ),
  );
}

function pages(filter, offset, total) {
  if (total <= PAGE) return "";
  const link = (to, words) => {
    if (to < 0 || to >= total) return h("span", { class: "button quiet disabled" }, words);
    return h(
      "a",
      { class: "button quiet", href: address("/tables", { filter: filter || null, offset: to || null }) },
      words,
    );
  };
  return h(
    "nav",
    { class: "pages", "aria-label": "Pages" },
    link(offset > 0 ? Math.max(0, offset - PAGE) : -1, "Previous"),
    link(offset + PAGE, "Next"),
  );
}

// Lists of the lake, page by page: a view with a filter, and tables as rows.

import { get } from "./api.js";
import { announce, count, failure, h, icon, tableName, waiting } from "./dom.js";
import { whileMade } from "./families.js";
import { pages } from "./pages.js";
import { address, go, title } from "./route.js";

export const PAGE = 50; // the tables of a union on the server, too

/** Where a page of a list begins. */
export const offsetOf = (parameters) => Math.max(0, Number(parameters.get("offset")) || 0);

/**
 * A view of /api/`name`. `headline` is a text about an answer, `contents` are its elements; both take the answer,
 * the filter and the offset.
 */
export function listView({ name, label, about, placeholder, headline, contents }) {
  const path = `/${name}`;
  let parts = null;
  let end = () => {};

  const show = (answer, filter, offset) => {
    const text = headline(answer, filter, offset);
    if (parts.heading.textContent !== text) announce(text);
    parts.heading.textContent = text;
    const link = (to) => address(path, { filter: filter || null, offset: to || null });
    parts.body.replaceChildren(contents(answer, filter), pages(link, offset, PAGE, answer.total));
  };
  const update = (parameters) => {
    const filter = parameters.get("filter") ?? "";
    const offset = offsetOf(parameters);
    if (document.activeElement !== parts.input) parts.input.value = filter;
    title(label);
    end();
    end = whileMade(
      () => get(`/api/${name}`, { filter, offset, limit: PAGE }),
      (answer) => show(answer, filter, offset),
      (error) => parts.body.replaceChildren(failure(error)),
    );
  };
  const open = (main, parameters) => {
    const input = h("input", {
      type: "search",
      "aria-label": "Part of a name",
      placeholder,
      autocomplete: "off",
      spellcheck: "false",
      oninput: () => go(address(path, { filter: input.value.trim() || null }), { replace: true }),
    });
    input.value = parameters.get("filter") ?? "";
    parts = { input, heading: h("p", { class: "soft" }), body: h("div", {}, waiting(12)) };
    main.replaceChildren(
      h(
        "div",
        { class: "page" },
        h("h1", {}, label),
        about ? h("p", { class: "soft" }, about) : null,
        h("div", { class: "field" }, icon("search"), input),
        parts.heading,
        parts.body,
      ),
    );
    update(parameters);
  };
  return { name, open, update, close: () => end() };
}

/** A button that searches with a table of the lake. */
export const searchWith = (name) =>
  h(
    "a",
    { class: "button quiet", href: address("/", { table: name }), "aria-label": `Search with ${name}` },
    icon("search"),
    "Search",
  );

/** Tables as rows. `family` gives a cell of each if there is a column for it, `actions` its buttons. */
export function tableList(tables, { caption, actions, actionsLabel, family = null, kind = "" }) {
  const head = (words, attributes = {}) => h("th", { scope: "col", ...attributes }, words);
  const row = (table) =>
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
      family ? h("td", { class: "of" }, family(table)) : null,
      h("td", { class: "act" }, actions(table)),
    );
  return h(
    "table",
    { class: `listing ${kind}` },
    h("caption", { class: "unseen" }, caption),
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        head("Name"),
        head("Rows", { class: "right" }),
        head("Columns", { class: "right" }),
        family ? head("Family") : null,
        head(h("span", { class: "unseen" }, actionsLabel)),
      ),
    ),
    h("tbody", {}, tables.map(row)),
  );
}

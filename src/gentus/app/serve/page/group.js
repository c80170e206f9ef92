// One family: its tables, to search with one of them or to union them.

import { get } from "./api.js";
import { announce, failure, h, icon, some, tableName, waiting } from "./dom.js";
import { slotOf, swatch, whileMade } from "./families.js";
import { offsetOf, PAGE, searchWith, tableList } from "./listing.js";
import { pages } from "./pages.js";
import { address, title } from "./route.js";

let main = null;
let end = () => {};

export const view = {
  name: "group",
  open(element, parameters) {
    main = element;
    follow(parameters);
  },
  update: follow,
  close: () => end(),
};

function follow(parameters) {
  const table = parameters.get("table") ?? "";
  const offset = offsetOf(parameters);
  title("Family");
  const body = h("div", {}, h("h1", {}, "Family of ", tableName(table)), waiting(12));
  main.replaceChildren(
    h("div", { class: "page" }, h("a", { class: "back", href: "/groups" }, icon("back"), "Families"), body),
  );
  end();
  end = whileMade(
    () => get("/api/group", { table, offset, limit: PAGE }),
    (answer) =>
      body.replaceChildren(...(answer.group ? contents(answer, table, offset) : none(answer, table))),
    (error) => body.replaceChildren(h("h1", {}, "Family"), failure(error)),
  );
}

/** The family is not known yet, or there is none. */
function none(answer, table) {
  const text =
    answer.state === "computing"
      ? "Families are being made ..."
      : answer.state === "failed"
        ? "The families could not be made; the log of the server says why."
        : "It is in no family: no other table of the lake belongs to it.";
  announce(text);
  return [
    h("h1", {}, "Family of ", tableName(table)),
    h("p", { class: "soft" }, text),
    answer.state === "computing" ? waiting(12) : h("p", {}, searchWith(table)),
  ];
}

function contents({ group, tables }, table, offset) {
  title(group.name);
  announce(`${group.name}, ${some(group.size, "table")}`);
  const names = tables.map((one) => one.name);
  const first = names.includes(group.example) ? group.example : names[0];
  return [
    h(
      "div",
      { class: "titled" },
      h("h1", { class: "family" }, swatch(slotOf(group.id)), h("span", {}, group.name)),
      h(
        "a",
        { class: "button primary", href: unionOf(first, names) },
        group.size > PAGE ? `Union of these ${tables.length} tables` : "Union of all",
        icon("right"),
      ),
    ),
    h(
      "p",
      { class: "soft facts" },
      h("span", {}, some(group.size, "table")),
      h("a", { href: address("/map", { table: group.example }) }, "Show on the map"),
    ),
    tableList(tables, {
      caption: "Tables of the family",
      kind: "members",
      actions: ({ name }) => [searchWith(name), unionWith(name, names)],
      actionsLabel: "Search and union",
    }),
    pages((to) => address("/group", { table, offset: to || null }), offset, PAGE, group.size),
  ];
}

/** The union of a table and the others of a list. */
const unionOf = (query, names) =>
  address("/", { table: query, with: names.filter((name) => name !== query), union: 1 });

const unionWith = (name, names) =>
  h(
    "a",
    {
      class: "button quiet",
      href: unionOf(name, names),
      title: "The others, in the columns of this one",
      "aria-label": `Union with the columns of ${name}`,
    },
    icon("plus"),
    "Union",
  );

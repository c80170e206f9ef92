// All tables of the lake, by name.

import { count, h, some } from "./dom.js";
import { familyLink } from "./families.js";
import { listView, PAGE, searchWith, tableList } from "./listing.js";

export const view = listView({
  name: "tables",
  label: "Tables",
  placeholder: "Filter by part of the name",
  headline,
  contents,
});

function headline(answer, filter, offset) {
  const last = Math.min(answer.total, offset + answer.tables.length);
  const range = answer.total > PAGE ? `, ${count(offset + 1)} to ${count(last)}` : "";
  return `${some(answer.total, "table")}${filter ? ` with “${filter}” in the name` : ""}${range}`;
}

function contents({ tables }, filter) {
  if (!tables.length)
    return h(
      "p",
      { class: "nothing" },
      filter ? "No table has this in its name." : "This index has no tables yet.",
    );
  return tableList(tables, {
    caption: "Tables of the lake",
    family: (table) => (table.group ? familyLink(table.group) : null),
    actions: (table) => searchWith(table.name),
    actionsLabel: "Search",
  });
}

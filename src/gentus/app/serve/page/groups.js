// All families of the lake, the largest first.

import { count, h, some, tableName, waiting } from "./dom.js";
import { familyLink } from "./families.js";
import { listView } from "./listing.js";

export const view = listView({
  name: "groups",
  label: "Families",
  about: "Tables that belong together: the rows of one can be appended to another.",
  placeholder: "Filter by words of the name",
  headline,
  contents,
});

function contents(answer, filter) {
  if (answer.groups.length) return h("ul", { class: "families-list" }, answer.groups.map(item));
  return answer.state === "computing" ? waiting(12) : nothing(answer, filter);
}

function headline(answer, filter) {
  if (answer.state === "computing")
    return answer.groups.length
      ? "The lake has changed; families are being made again ..."
      : "Families are being made ...";
  if (answer.state === "failed") return "The families could not be made; the log of the server says why.";
  const found = some(answer.total, "family", "families");
  if (filter) return `${found} with “${filter}” in the name`;
  const single = answer.single
    ? `; ${answer.single === 1 ? "1 table is" : `${count(answer.single)} tables are`} in none`
    : "";
  return `${found} with ${some(answer.grouped, "table")}${single}`;
}

const nothing = (answer, filter) =>
  h(
    "p",
    { class: "nothing" },
    filter
      ? "No family has this in its name."
      : answer.state === "failed"
        ? ""
        : "No two tables of this lake belong together.",
  );

function item(group) {
  const more = group.size - group.tables.length;
  return h(
    "li",
    {},
    h("div", { class: "first" }, familyLink(group), h("span", { class: "soft" }, some(group.size, "table"))),
    h(
      "p",
      { class: "soft members" },
      group.tables.map((name, at) => [at ? ", " : "", tableName(name)]),
      more ? ` and ${count(more)} more` : "",
    ),
  );
}

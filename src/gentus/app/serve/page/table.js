// One table: a profile of its columns, and some rows.

import { bar, count, failure, h, icon, shortSid, some, tableName, waiting } from "./dom.js";
import { familyLink } from "./families.js";
import { grid } from "./grid.js";
import { preview } from "./lake.js";
import { rowsOf } from "./picker.js";
import { address, title } from "./route.js";

let turn = 0;
let main = null;

export const view = {
  name: "table",
  open(element, parameters) {
    main = element;
    follow(parameters);
  },
  update: follow,
};

async function follow(parameters) {
  const name = parameters.get("name");
  const upload = parameters.get("upload");
  const now = (turn += 1);
  title(name ?? "A table");
  const body = h("div", {}, waiting(10));
  main.replaceChildren(
    h(
      "div",
      { class: "page" },
      h("a", { class: "back", href: "/tables" }, icon("back"), "Tables"),
      h(
        "div",
        { class: "titled" },
        h("h1", {}, tableName(name ?? "Your upload")),
        h(
          "a",
          { class: "button primary", href: address("/", upload ? { upload } : { table: name }) },
          icon("search"),
          "Search with it",
        ),
      ),
      body,
    ),
  );
  try {
    if (!name && !upload) throw new Error("The address names no table.");
    const table = await preview(upload ? { upload } : { table: name });
    if (now !== turn) return;
    if (upload) main.querySelector("h1").replaceChildren(tableName(table.name));
    body.replaceChildren(
      h(
        "p",
        { class: "soft facts" },
        h("span", {}, rowsOf(table)),
        h("span", {}, some(table.columns.length, "column")),
        table.group ? familyLink(table.group) : null,
        table.sid
          ? h(
              "a",
              {
                href: address("/tree", { prefix: table.sid.split("-").slice(0, 2).join("-") }),
                title: `Its neighbours in the tree: ${table.sid}`,
              },
              h("code", {}, shortSid(table.sid)),
            )
          : null,
      ),
      h("h2", {}, "Columns"),
      profile(table),
      h("h2", {}, "Rows"),
      grid(
        `First rows of ${table.name}`,
        table.columns.map((column) => ({ name: column.name })),
        table.sample,
      ),
    );
  } catch (error) {
    if (now === turn) body.replaceChildren(failure(error));
  }
}

function profile(table) {
  return h(
    "table",
    { class: "listing profile" },
    h("caption", { class: "unseen" }, "Profile of the columns"),
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        ["Name", "Type", "Filled", "Distinct", "Examples"].map((name, at) =>
          h("th", { scope: "col", class: at === 3 ? "right" : null }, name),
        ),
      ),
    ),
    h(
      "tbody",
      {},
      table.columns.map((column) =>
        h(
          "tr",
          {},
          h("th", { scope: "row" }, column.name),
          h("td", { class: "soft" }, column.type ?? ""),
          h(
            "td",
            { class: "sure" },
            bar(column.filled),
            h("span", {}, `${Math.round(100 * column.filled)} %`),
          ),
          h("td", { class: "right" }, count(column.distinct)),
          h("td", { class: "such" }, column.examples.join(" · ")),
        ),
      ),
    ),
  );
}

// Tables of the lake to try: each with its first columns and a row.

import { get } from "./api.js";
import { h, tableName } from "./dom.js";
import { index, preview } from "./lake.js";
import { address } from "./route.js";

const TRIED = 3; // tables
const COLUMNS = 4; // of each
const MANY = 50_000; // tables; the families of more are made only for those who want to see them

/** Some tables with a row each; it loads its contents itself, and stays empty if that fails. */
export function examples() {
  const list = h("ul", { class: "examples" });
  const element = h("div", { hidden: true }, h("h2", {}, "Try one of these"), list);
  choose()
    .then(async (names) => {
      const cards = await Promise.allSettled(names.map(card));
      list.replaceChildren(...cards.flatMap(({ value }) => value ?? []));
      element.hidden = !list.childElementCount;
    })
    .catch(() => {}); // the rest of the page shows the error
  return element;
}

/** A table of each of the largest families; until they are made, some of the list, which is sorted by name. */
async function choose() {
  const { tables: total } = await index();
  const { groups } = total <= MANY ? await get("/api/groups", { limit: TRIED }) : { groups: [] };
  if (groups.length) return groups.map((group) => group.example);
  const places = Array.from({ length: Math.min(TRIED, total) }, (_, at) => Math.floor((at * total) / TRIED));
  const pages = await Promise.all(places.map((offset) => get("/api/tables", { offset, limit: 1 })));
  return pages.flatMap((page) => page.tables.map((table) => table.name));
}

async function card(name) {
  const table = await preview({ table: name }, 3);
  const shown = table.columns.slice(0, COLUMNS);
  const grid = h(
    "span",
    { class: "cells" },
    shown.map((column) => h("span", { class: "soft" }, column.name)),
    shown.map((_, at) => h("span", {}, table.sample[0]?.[at] ?? "–")),
  );
  grid.style.gridTemplateColumns = `repeat(${shown.length}, minmax(0, 1fr))`;
  return h("li", {}, h("a", { href: address("/", { table: name }) }, tableName(name), grid));
}

// The map of the lake: every table is a point, similar ones close together, coloured by their family.

import { get } from "./api.js";
import { announce, count, failure, h, icon, some, tableName, waiting } from "./dom.js";
import { CHOSEN, COLOURED, slotOf, swatch, whileMade } from "./families.js";
import { preview } from "./lake.js";
import { legend } from "./legend.js";
import { Plot } from "./plot.js";
import { pointing } from "./pointing.js";
import { address, go, title } from "./route.js";
import { lastHits } from "./search.js";

const COLUMNS = 6; // of the table under the pointer
const MATCHES = 8; // names listed
const PAUSE = 120; // ms over a point before its columns are requested

let cleanup = () => {};

export const view = {
  name: "map",
  async open(main, parameters) {
    cleanup();
    title("Map");
    const frame = h("div", { class: "map" }, h("h1", { class: "unseen" }, "Map of the lake"), waiting(1));
    main.replaceChildren(frame);
    try {
      const answer = await get("/api/map");
      if (frame.isConnected) cleanup = draw(frame, answer, parameters.get("table"));
    } catch (error) {
      frame.replaceChildren(failure(error));
    }
  },
  update() {},
  close() {
    cleanup();
    cleanup = () => {};
  },
};

function draw(frame, { points, names, state }, wanted) {
  const canvas = h("canvas", {
    tabindex: "0",
    role: "application",
    "aria-label": `Map of ${count(names.length)} tables. Arrow keys move it, plus and minus zoom, 0 shows all of it, Enter searches with the table nearest to the centre. The same tables are listed under Tables and Families.`,
  });
  const tip = h("div", { class: "tip", hidden: true });
  const cross = h("div", { class: "cross", "aria-hidden": "true" });
  const plot = new Plot(canvas, points, () => tip.hidden || settle());
  const place = new Map(names.map((name, at) => [name, at]));
  for (const name of lastHits()) if (place.has(name)) plot.marked.add(place.get(name));
  const found = plot.marked.size;

  // --- colours, which follow the families and the scheme ------------------------------------------------

  const style = getComputedStyle(document.documentElement);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const colours = () => {
    plot.palette = Array.from({ length: CHOSEN + 1 }, (_, slot) =>
      style.getPropertyValue(`--family-${slot}`).trim(),
    );
    plot.ink = style.getPropertyValue("--ink").trim();
    plot.changed();
  };
  dark.addEventListener("change", colours);
  const families = h("div", {});
  const largest = new Map(); // id -> family
  const end = whileMade(
    () => get("/api/groups", { limit: COLOURED }),
    async (answer) => {
      if (state === "computing" && answer.state === "ready") {
        const map = await get("/api/map");
        if (map.names.length !== names.length)
          return view.open(frame.parentElement, new URLSearchParams(location.search)); // tables came or went
        plot.sort(map.points);
      }
      state = answer.state;
      for (const group of answer.groups) largest.set(group.id, group);
      const chosen = place.has(wanted) ? (await get("/api/group", { table: wanted, limit: 1 })).group : null;
      families.replaceChildren(legend(plot, answer, chosen));
      plot.changed();
    },
    (error) => families.replaceChildren(failure(error)),
  );

  // --- a table under the pointer ---------------------------------------------------------------------

  let timer = 0;
  const settle = () => {
    if (plot.hovered < 0) return;
    const [px, py] = plot.place(plot.hovered);
    const right = px > plot.width - 300;
    tip.style.left = `${right ? px - 14 : px + 14}px`;
    tip.style.top = `${Math.max(8, Math.min(plot.height - tip.offsetHeight - 8, py - 20))}px`;
    tip.classList.toggle("leftwards", right);
  };
  const hover = (at, { stays = false } = {}) => {
    if (at === plot.hovered && !stays) return;
    plot.hovered = at;
    plot.changed();
    clearTimeout(timer);
    tip.hidden = at < 0;
    canvas.classList.toggle("pointing", at >= 0);
    if (at < 0) return;
    const cells = h("dl", {});
    const family = h("small", {}, named(largest.get(plot.families[at]), plot.families[at]));
    tip.replaceChildren(
      tableName(names[at]),
      family,
      cells,
      stays
        ? h(
            "a",
            { class: "button primary", href: address("/", { table: names[at] }) },
            icon("search"),
            "Search with it",
          )
        : "",
    );
    tip.classList.toggle("stays", stays);
    settle();
    timer = setTimeout(async () => {
      try {
        const table = await preview({ table: names[at] }, 3);
        if (plot.hovered !== at) return;
        if (table.group) family.replaceChildren(...named(table.group, table.group.id));
        cells.replaceChildren(
          ...table.columns
            .slice(0, COLUMNS)
            .flatMap((column, place) => [
              h("dt", {}, column.name),
              h("dd", {}, table.sample[0]?.[place] ?? "–"),
            ]),
        );
        if (table.columns.length > COLUMNS)
          cells.append(h("dt", {}, `and ${table.columns.length - COLUMNS} more`));
        settle();
      } catch (error) {
        cells.replaceWith(h("p", {}, error.message));
      }
    }, PAUSE);
  };
  const search = (at) => at >= 0 && go(address("/", { table: names[at] }));

  pointing(canvas, plot, {
    hover,
    search,
    leave: () => tip.classList.contains("stays") || hover(-1),
    middle: () => {
      // A wide radius: where tables are concentrated in few places, the keyboard would rarely hit one.
      hover(plot.near(plot.width / 2, plot.height / 2, Math.max(60, Math.min(plot.width, plot.height) / 3)));
      announce(plot.hovered < 0 ? "No table here" : names[plot.hovered]);
    },
  });

  // --- finding by name, and the legend ----------------------------------------------------------------

  const matches = h("ul", { class: "matches", "aria-label": "Tables with that name" });
  const input = h("input", {
    type: "search",
    "aria-label": "Find a table on the map",
    placeholder: "Find on the map",
    autocomplete: "off",
    spellcheck: "false",
    oninput: () => {
      const part = input.value.trim().toLowerCase();
      const some = part ? names.flatMap((name, at) => (name.toLowerCase().includes(part) ? [at] : [])) : [];
      plot.marked = new Set(some.slice(0, 2000));
      plot.changed();
      matches.replaceChildren(
        ...some.slice(0, MATCHES).map((at) =>
          h(
            "li",
            {},
            h(
              "button",
              {
                type: "button",
                class: "quiet",
                onclick: () => {
                  plot.centre(at, 12);
                  hover(at, { stays: true });
                },
              },
              tableName(names[at]),
            ),
          ),
        ),
        ...(some.length > MATCHES
          ? [h("li", { class: "soft" }, `and ${count(some.length - MATCHES)} more`)]
          : []),
      );
      if (part) announce(`${count(some.length)} on the map`);
    },
  });
  const zoomer = (name, label, act) =>
    h("button", { type: "button", "aria-label": label, title: label, onclick: act }, icon(name));
  frame.replaceChildren(
    h("h1", { class: "unseen" }, "Map of the lake"),
    h(
      "div",
      { class: "ground" },
      canvas,
      cross,
      tip,
      h(
        "div",
        { class: "zoom" },
        zoomer("plus", "Zoom in", () => plot.enlarge(1.6)),
        zoomer("minus", "Zoom out", () => plot.enlarge(1 / 1.6)),
        zoomer("fit", "Show all", () => plot.reset()),
      ),
    ),
    h(
      "aside",
      { "aria-label": "Legend" },
      h("div", { class: "field" }, icon("search"), input),
      matches,
      found
        ? h(
            "p",
            { class: "soft" },
            h("i", { class: "ringed" }),
            ` ${some(found, "table")} of your last search`,
          )
        : null,
      h("h2", {}, "Families"),
      families,
      h(
        "p",
        { class: "soft hint" },
        "Points close together are similar tables. Click one to search with it.",
      ),
    ),
  );
  const watch = new ResizeObserver(() => plot.resize());
  watch.observe(canvas);
  colours();
  return () => {
    watch.disconnect();
    dark.removeEventListener("change", colours);
    end();
    clearTimeout(timer);
  };
}

/** The family of a table, as far as it is known. */
const named = (group, id) => (id === 0 ? ["in no family"] : [swatch(slotOf(id)), group?.name ?? "…"]);

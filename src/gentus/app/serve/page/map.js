// The map of the lake: every table is a point, similar ones close together, coloured by their first code.

import { get } from "./api.js";
import { announce, count, failure, h, icon, some, tableName, waiting } from "./dom.js";
import { preview } from "./lake.js";
import { Plot } from "./plot.js";
import { pointing } from "./pointing.js";
import { address, go, title } from "./route.js";
import { lastHits } from "./search.js";

const FAMILIES = 12; // in the legend
const COLUMNS = 6; // of the table under the pointer
const MATCHES = 8; // names listed
const PAUSE = 120; // ms over a point before its columns are requested

let known = null; // the response, requested once
let cleanup = () => {};

export const view = {
  name: "map",
  async open(main) {
    title("Map");
    const frame = h("div", { class: "map" }, h("h1", { class: "unseen" }, "Map of the lake"), waiting(1));
    main.replaceChildren(frame);
    try {
      known ??= await get("/api/map");
      if (frame.isConnected) cleanup = draw(frame, known);
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

function draw(frame, { points, names }) {
  const canvas = h("canvas", {
    tabindex: "0",
    role: "application",
    "aria-label": `Map of ${count(names.length)} tables. Arrow keys move it, plus and minus zoom, 0 shows all of it, Enter searches with the table nearest to the centre. The same tables are listed under Tables and Tree.`,
  });
  const tip = h("div", { class: "tip", hidden: true });
  const cross = h("div", { class: "cross", "aria-hidden": "true" });
  const plot = new Plot(canvas, points, () => tip.hidden || settle());
  const place = new Map(names.map((name, at) => [name, at]));
  for (const name of lastHits()) if (place.has(name)) plot.marked.add(place.get(name));
  const found = plot.marked.size;

  const style = getComputedStyle(document.documentElement);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const families = h("ul", { class: "families" });
  const colours = () => {
    plot.dark = dark.matches;
    plot.ink = style.getPropertyValue("--ink").trim();
    families.replaceChildren(...legend(plot));
    plot.changed();
  };
  dark.addEventListener("change", colours);

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
    tip.replaceChildren(
      tableName(names[at]),
      h("small", {}, `first code ${plot.codes[at]}`),
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
      h("h2", {}, "By first code"),
      families,
      h(
        "p",
        { class: "soft hint" },
        "Points close together are similar tables. Click one to search with it. ",
        h("a", { href: "/map.json" }, "JSON"),
      ),
    ),
  );
  const watch = new ResizeObserver(() => plot.resize());
  watch.observe(canvas);
  colours();
  return () => {
    watch.disconnect();
    dark.removeEventListener("change", colours);
    clearTimeout(timer);
  };
}

function legend(plot) {
  const most = plot.groups[0]?.members.length ?? 1;
  const items = plot.groups.slice(0, FAMILIES).map((group) => {
    const { code, members } = group;
    const swatch = h("i", {});
    swatch.style.background = plot.colour(group);
    const share = h("span", { class: "share" }, h("span", {}));
    share.firstChild.style.width = `${(100 * members.length) / most}%`;
    share.firstChild.style.background = plot.colour(group);
    let pinned = false;
    const light = (on) => {
      plot.only = on || pinned ? code : null;
      plot.changed();
    };
    const button = h(
      "button",
      {
        type: "button",
        "aria-pressed": "false",
        onmouseenter: () => light(true),
        onmouseleave: () => light(false),
        onclick: () => {
          pinned = !pinned;
          for (const other of button.closest("ul").querySelectorAll("[aria-pressed=true]"))
            if (other !== button) other.click();
          button.setAttribute("aria-pressed", String(pinned));
          light(pinned);
        },
      },
      swatch,
      h("span", {}, h("span", { class: "unseen" }, "code "), String(code)),
      share,
      h("span", { class: "soft" }, count(members.length)),
    );
    return h("li", {}, button);
  });
  const rest = plot.groups.slice(FAMILIES);
  if (rest.length)
    items.push(
      h(
        "li",
        { class: "soft" },
        `${some(rest.length, "other code")}, ${some(
          rest.reduce((sum, one) => sum + one.members.length, 0),
          "table",
        )}`,
      ),
    );
  return items;
}

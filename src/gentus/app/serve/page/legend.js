// The legend of the map: the largest families by name; a click highlights one.

import { announce, count, h, some } from "./dom.js";
import { CHOSEN, OTHER, SINGLE, slotOf, swatch } from "./families.js";

/** Entries of an answer of /api/groups; `wanted` is a family that is highlighted at first, or null. */
export function legend(plot, answer, wanted) {
  if (answer.state === "computing" && !answer.groups.length)
    return h("p", { class: "soft" }, "Families are being made ...");
  if (answer.state === "failed")
    return h("p", { class: "soft" }, "The families could not be made; the log of the server says why.");
  const list = h("ul", { class: "legend" });
  let pinned = null; // the entry whose points stay highlighted

  const light = (entry) => plot.light(entry ? entry.members() : null, entry?.slot);
  const pin = (entry) => {
    pinned = pinned === entry ? null : entry;
    for (const button of list.querySelectorAll("button"))
      button.setAttribute("aria-pressed", String(button === pinned?.button));
    light(pinned);
    announce(pinned ? `${entry.name} is highlighted` : "All families are shown");
  };
  const add = (name, size, slot, members) => {
    const entry = { name, size, slot, members };
    entry.button = h(
      "button",
      {
        type: "button",
        "aria-pressed": "false",
        onmouseenter: () => light(entry),
        onmouseleave: () => light(pinned),
        onclick: () => pin(entry),
      },
      swatch(slot),
      h("span", { class: "name" }, name),
      h("span", { class: "soft" }, count(size), h("span", { class: "unseen" }, " tables")),
    );
    list.append(h("li", {}, entry.button));
    return entry;
  };

  const entries = new Map(
    answer.groups.map((group) => [
      group.id,
      add(group.name, group.size, slotOf(group.id), () => plot.slots[slotOf(group.id)]),
    ]),
  );
  if (wanted && !entries.has(wanted.id))
    entries.set(
      wanted.id,
      add(wanted.name, wanted.size, CHOSEN, () =>
        [...plot.families.keys()].filter((at) => plot.families[at] === wanted.id),
      ),
    );
  const others = answer.total - entries.size;
  const shown = [...entries.values()].reduce((sum, entry) => sum + entry.size, 0);
  if (others > 0)
    add(
      some(others, "other family", "other families"),
      answer.grouped - shown,
      OTHER,
      () => plot.slots[OTHER],
    );
  if (answer.single) add("in no family", answer.single, SINGLE, () => plot.slots[SINGLE]);
  if (wanted) pin(entries.get(wanted.id));
  return h("div", {}, list, h("p", {}, h("a", { href: "/groups" }, "All families")));
}

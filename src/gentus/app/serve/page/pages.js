// Links to the previous and the next page of a list.

import { h } from "./dom.js";

/** The links, by a function from an offset to an address; nothing if all is on one page. */
export function pages(address, offset, size, total) {
  if (total <= size) return "";
  const link = (to, words) =>
    to < 0 || to >= total
      ? h("span", { class: "button quiet disabled" }, words)
      : h("a", { class: "button quiet", href: address(to) }, words);
  return h(
    "nav",
    { class: "pages", "aria-label": "Pages" },
    link(offset > 0 ? Math.max(0, offset - size) : -1, "Previous"),
    link(offset + size, "Next"),
  );
}

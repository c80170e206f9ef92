// Families of tables that belong together: their names, colours and links. The server makes them in the background.

import { h } from "./dom.js";
import { address } from "./route.js";

/** The largest families have a colour each; the others share one, and so do tables in none. */
export const COLOURED = 10;
export const OTHER = COLOURED;
export const SINGLE = COLOURED + 1;
export const CHOSEN = COLOURED + 2; // one of the others that the user wants to see

/** Which colour a family has, by its id, which is its place by size; 0 is no family. */
export const slotOf = (id) => (id === 0 ? SINGLE : Math.min(id - 1, OTHER));

/** The colour of a family, beside its name. */
export const swatch = (slot) => h("i", { class: `swatch family-${slot}`, "aria-hidden": "true" });

/** A family as a link to its tables. A table names it, as ids change with the lake. */
export const familyLink = (group) =>
  h(
    "a",
    { class: "family", href: address("/group", { table: group.example }) },
    swatch(slotOf(group.id)),
    h("span", { class: "name" }, group.name),
  );

const FIRST = 400; // ms between requests while families are made
const LAST = 5000;

/** Show an answer of the server, and again until the families in it are made; returns a function that ends it. */
export function whileMade(ask, show, fail) {
  let over = false;
  let timer = 0;
  let pause = FIRST;
  const turn = async () => {
    try {
      const answer = await ask();
      if (over) return;
      await show(answer);
      if (over || answer.state !== "computing") return;
      timer = setTimeout(turn, pause);
      pause = Math.min(LAST, 1.5 * pause);
    } catch (error) {
      if (!over) fail(error);
    }
  };
  turn();
  return () => {
    over = true;
    clearTimeout(timer);
  };
}

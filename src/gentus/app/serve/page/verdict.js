// What a search says of a table, in the words of the verdict: fit, score, why, and whether it is a copy.

import { h, some } from "./dom.js";

const MOST_TABLES = 50; // of a union on the server

export const fits = (hit) => hit.fit !== "none";

/** How far a table fits, as a badge. */
export const badge = (hit) => h("span", { class: `fit ${hit.fit}` }, `Fit: ${hit.fit}`);

/** A probability as percent; it never claims to be certain. */
export function percent(score) {
  const whole = Math.round(100 * score);
  if (whole >= 100) return "> 99 %";
  return whole < 1 ? "< 1 %" : `${whole} %`;
}

/** The score of a table in words. */
export const scored = (hit) =>
  h("span", {}, `Score ${percent(hit.score)}: how likely a person would append it`);

/** "7 of 9 columns". */
export const matched = ({ columns }) => `${columns.matched} of ${some(columns.query, "column")}`;

/** Words of the server, with names of columns set apart from the rest. */
export const spoken = (words) =>
  words.split(/`([^`]*)`/).map((part, at) => (at % 2 ? h("span", { class: "term" }, part) : part));

/** Words as a sentence of their own; a name at its beginning stays as it is. */
export const sentence = (words) => words[0].toUpperCase() + words.slice(1);

/** Why a table does not fit, or not fully; nothing for a full fit. */
export const reason = (hit) =>
  hit.fit === "full" ? null : h("span", { class: "said" }, spoken(sentence(hit.why)));

/** Whose rows a table has: "same rows as your table"; null if they are its own. */
export function copyOf(session, hit) {
  if (!hit.same_rows) return null;
  const { words, rank } = hit.same_rows;
  const other = session.original(hit);
  return other ? words.replace(`#${rank}`, () => other.table) : words;
}

/** The tables that are selected at first: those that fit, without copies; of two, the one with more rows. */
export function suggested(hits) {
  const selected = new Map(); // rank -> table
  for (const { rank, table, same_rows: same } of hits.filter(fits)) {
    if (same && !(same.kind === "contains" && selected.delete(same.rank))) continue;
    selected.set(rank, table);
  }
  return [...selected.values()].slice(0, MOST_TABLES);
}

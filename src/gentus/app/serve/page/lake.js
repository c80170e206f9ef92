// What is known of the lake, each thing asked for once.

import { get } from "./api.js";

const KEPT = 200; // previews; the oldest goes when there are more

const previews = new Map();
let facts = null;

/** What the index is: its name, how many tables, which limits. */
export function index() {
  facts ??= get("/api/index").catch((error) => {
    facts = null;
    throw error;
  });
  return facts;
}

/** Columns and some rows of a table, or of an upload. */
export function preview(reference, rows = 20) {
  const parameters = reference.upload ? { upload: reference.upload } : { name: reference.table };
  const key = JSON.stringify([parameters, rows]);
  if (!previews.has(key)) {
    if (previews.size >= KEPT) previews.delete(previews.keys().next().value);
    const answer = get("/api/table", { ...parameters, rows });
    answer.catch(() => previews.delete(key));
    previews.set(key, answer);
  }
  return previews.get(key);
}

/** Do things that can wait, a few at a time; what was asked for last is what people look at, and comes first. */
export class Queue {
  constructor(width = 2) {
    this.width = width;
    this.waiting = [];
    this.busy = 0;
  }

  add(work) {
    this.waiting.push(work);
    this.next();
  }

  clear() {
    this.waiting = [];
  }

  async next() {
    if (this.busy >= this.width || !this.waiting.length) return;
    this.busy += 1;
    try {
      await this.waiting.pop()();
    } catch {
      // what can wait can also be missing
    } finally {
      this.busy -= 1;
      this.next();
    }
  }
}

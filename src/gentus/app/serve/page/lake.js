// Facts and previews of the lake, each requested once.

import { get } from "./api.js";

const KEPT = 200; // previews; the oldest is dropped when there are more

const previews = new Map();
let facts = null;

/** The index: its name, number of tables and limits. */
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

/** Does optional work, a few at a time. Last in, first out: the newest is what the user looks at. */
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
      // optional work may fail
    } finally {
      this.busy -= 1;
      this.next();
    }
  }
}

// A query with its hits, its alignments, and the user's changes of them.

import { get, post, send } from "./api.js";
import { preview } from "./lake.js";

export class Session {
  constructor(reference, answer, file = null, header = "auto") {
    this.key = keyOf(reference);
    this.address = reference; // as the page's address names the query
    this.reference = reference; // {upload} or {table}, as the server knows it
    this.file = file;
    this.header = header; // whether its first row is one: auto, yes or no
    this.doubt = answer.doubt; // why its first row looks like data
    this.name = answer.query;
    this.columns = answer.query_columns;
    this.take(answer);
    this.alignments = new Map(); // table -> promise
    this.choices = new Map(); // of a table: column of the query -> column of the table, or null for none
  }

  take(answer) {
    this.hits = answer.results;
    this.verdict = answer.verdict; // how many of them fit, in words
    this.ms = answer.ms;
  }

  /** Send a request about the query; an upload that has expired on the server is sent again. */
  async ask(question) {
    try {
      return await question(this.reference);
    } catch (error) {
      if (error.status !== 404 || this.file === null) throw error;
      this.reference = { upload: (await send("/api/upload", this.file, { header: this.header })).upload };
      return question(this.reference);
    }
  }

  /** Look for more tables. */
  async search(k) {
    this.take(await this.ask((query) => post("/api/search", { query, k })));
  }

  hit(table) {
    return this.hits.find((one) => one.table === table) ?? null;
  }

  /** The table before a hit that has its rows; undefined if it is the query. */
  original(hit) {
    return this.hits.find((one) => one.rank === hit.same_rows.rank);
  }

  preview(rows = 20) {
    return this.ask((query) => preview(query, rows));
  }

  /** Which columns of the query and of a table match, and why. */
  align(table) {
    if (!this.alignments.has(table)) {
      const answer = this.ask((query) => post("/api/align", { query, table }));
      answer.catch(() => this.alignments.delete(table));
      this.alignments.set(table, answer);
    }
    return this.alignments.get(table);
  }

  /** Match a column of the query with one of a table (null: with none, undefined: as found). */
  choose(table, column, own) {
    if (!this.choices.has(table)) this.choices.set(table, new Map());
    const chosen = this.choices.get(table);
    if (own === undefined) chosen.delete(column);
    else chosen.set(column, own);
  }

  chosen(table) {
    return this.choices.get(table) ?? new Map();
  }
}

export const keyOf = (reference) =>
  reference.upload ? `upload ${reference.upload}` : `table ${reference.table}`;

/** Search with a file: one step for upload and search. */
export async function searchFile(file, k, header = "auto") {
  const answer = await send("/api/search", file, { k, header });
  return new Session({ upload: answer.upload }, answer, file, header);
}

/** Search with an earlier upload, or with a table of the lake. */
export async function searchReference(reference, k) {
  const answer = reference.table
    ? await get("/api/search", { table: reference.table, k })
    : await post("/api/search", { query: reference, k });
  return new Session(reference, answer);
}

/** The columns of a query in order, each with its match: found, chosen, switched off or none. */
export function pairing(alignment, chosen) {
  const found = new Map(alignment.pairs.map((pair) => [pair.query.name, pair]));
  const taken = new Set([...chosen.values()].filter((name) => name !== null));
  return alignment.query_columns.map((name, at) => {
    const pair = found.get(name) ?? null;
    const own = chosen.get(name);
    if (own) return { name, at, pair, table: own, state: "chosen", score: null, reason: "chosen by you" };
    if (pair === null) return { name, at, pair, table: null, state: "none", score: null, reason: "" };
    const off = own === null || taken.has(pair.table.name);
    return {
      name,
      at,
      pair,
      table: pair.table.name,
      state: off ? "off" : "on",
      score: pair.score,
      reason: pair.reason,
    };
  });
}

/** The columns of a table without a match. */
export function leftOver(alignment, rows) {
  const used = new Set(
    rows.filter((row) => row.state === "on" || row.state === "chosen").map((row) => row.table),
  );
  return alignment.table_columns.filter((name) => !used.has(name));
}

/** A plan with the user's changes. Changed columns lose their type, so that the server infers it again. */
export function edited(plan, session) {
  const into = new Map(plan.query.columns.map((column) => [column.from, column.into]));
  const touched = new Set();
  const skipped = [];
  const tables = [];
  for (const table of plan.tables) {
    let columns = table.columns;
    for (const [column, own] of session.chosen(table.name)) {
      const target = into.get(column);
      if (target === undefined) continue;
      touched.add(target);
      columns = columns.filter((one) => one.into !== target && (own === null || one.from !== own));
      if (own !== null) columns = [...columns, { from: own, into: target }];
    }
    if (columns.length) tables.push({ ...table, columns });
    else skipped.push(table.name);
  }
  const open = (table) => ({
    ...table,
    columns: table.columns.map((one) => (touched.has(one.into) ? { from: one.from, into: one.into } : one)),
  });
  const used = new Set([plan.query, ...tables].flatMap((table) => table.columns.map((one) => one.into)));
  const columns = plan.columns
    .filter((column) => used.has(column.name))
    .map((column) => (touched.has(column.name) ? { name: column.name } : column));
  return { plan: { ...plan, query: open(plan.query), tables: tables.map(open), columns }, skipped };
}

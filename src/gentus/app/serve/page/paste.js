// Rows from the clipboard: cells of a spreadsheet, or lines of CSV. Only text is read, never markup.

/** Text as a file: tab-separated as spreadsheets copy cells, else CSV; throws an error if it is no table. */
export function pastedFile(text) {
  const lines = text.trim().split(/\r\n|\r|\n/, 2);
  if (!lines[0]) throw new Error("There is no text to paste. Copy some rows first, with their header.");
  if (lines.length < 2)
    throw new Error("You pasted one line. Copy at least one row more: the first line is read as the header.");
  return new File([text], lines[0].includes("\t") ? "pasted.tsv" : "pasted.csv", { type: "text/plain" });
}

/** The text of the clipboard; null where the browser does not let a page read it. */
export async function clipboardText() {
  try {
    return await navigator.clipboard.readText(); // there is no clipboard on a page without HTTPS
  } catch {
    return null;
  }
}

/** The keys that paste, as people know them. */
export const PASTE_KEYS = /Mac|iP(hone|ad|od)/.test(navigator.platform) ? "⌘V" : "Ctrl+V";

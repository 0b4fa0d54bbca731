// Reads CSV files and blocks of a spreadsheet into rows of cells, and writes CSV files. Papa Parse is loaded when it is needed.

import { download, h } from "./dom.js";
import { ROOT } from "./server.js";
import { mapInTurns } from "./turns.js";

const MAX_BYTES = 64 * 2 ** 20;
const MAX_ROWS = 100_000;
const PIECE = 128 * 1024; // characters that are parsed in a few milliseconds

let loading = null;

/** Load Papa Parse, a classic script. */
function parser() {
  loading ??= new Promise((resolve, reject) => {
    const failed = () => reject(new Error("The CSV reader of this page cannot be loaded."));
    document.head.append(h("script", { src: `${ROOT}/page/papaparse.js`, onload: () => resolve(globalThis.Papa), onerror: failed }));
  });
  loading.catch(() => (loading = null));
  return loading;
}

/** The rows of a CSV file, each a list of strings. Throws an Error with one sentence for the user. */
export async function readCsv(file) {
  if (file.size > MAX_BYTES) throw new Error(`${file.name} is larger than ${MAX_BYTES / 2 ** 20} MB.`);
  const text = await file.text();
  if (text.includes("\ufffd")) throw new Error(`${file.name} is not UTF-8 text.`);
  return rowsOf(text, file.name, "");
}

/** The rows of a block that was copied from a spreadsheet. */
export const readBlock = (text) => rowsOf(text, "The block", "\t");

async function rowsOf(text, name, delimiter) {
  const Papa = await parser();
  return new Promise((resolve, reject) => {
    const rows = [];
    const end = (parsing, reason) => (reject(new Error(reason)), parsing.abort()); // which completes it
    const chunk = ({ data, errors }, parsing) => {
      const fault = errors.find(({ type }) => type === "Quotes");
      // A file begins with its header, a block with its first row.
      if (fault) return end(parsing, `Row ${rows.length + fault.row + (delimiter ? 1 : 0)} of ${name} has a broken quotation mark.`.replace("Row 0", "The header"));
      for (const row of data) rows.push(row);
      if (rows.length > MAX_ROWS + 1) return end(parsing, `${name} has more than ${MAX_ROWS.toLocaleString("en")} rows.`);
      parsing.pause();
      setTimeout(() => parsing.resume()); // the page can draw a frame
    };
    Papa.parse(text, { delimiter, skipEmptyLines: "greedy", chunk, chunkSize: PIECE, complete: () => resolve(rows), error: reject });
  });
}

/** Save a CSV file with the rows that `rowOf` returns for items. Formulas are escaped, so that no spreadsheet runs them. */
export async function saveCsv(name, header, items, rowOf) {
  const Papa = await parser();
  const line = (row) => `${Papa.unparse([row], { escapeFormulae: true })}\n`;
  download(name, "text/csv", line(header), ...(await mapInTurns(items, (item, at) => line(rowOf(item, at)))));
}

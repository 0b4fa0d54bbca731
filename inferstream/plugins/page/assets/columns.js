// The columns of models that take tables: their types by the metadata, and cells as text and as values.

import { factsOf, timeOf, wordOf } from "./fields.js";
import { contentOf, isDocument } from "./server.js";

const MAX_COLUMNS = 256;
const TRUE = ["true", "1", "yes", "t", "y"];
const FALSE = ["false", "0", "no", "f", "n"];
const DECIMAL_COMMA = /^[-+]?\d+,\d+$/;
/** Flags as pandas writes them, which a model may have learned as numbers. */
const FLAGS = new Map([["True", "1"], ["False", "0"]]);

/**
 * The columns of a model whose inputs are a table; null for any other model.
 *
 * A table is several inputs of one value per row, or one tensor of rows: a matrix of few columns.
 */
export function columnsOf(model) {
  const { inputs } = model;
  if (model.strict || model.texts || inputs.length === 0 || inputs.length > MAX_COLUMNS) return null;
  if (inputs.some((tensor) => isDocument(tensor) || tensor.parameters?.stream || ["image", "base64"].includes(contentOf(tensor)))) return null;
  if (inputs.every(isColumn) && (inputs.length > 1 || inputs[0].parameters?.described)) return inputs.map((tensor) => columnOf(tensor, tensor.name));
  const [tensor] = inputs;
  if (inputs.length > 1 || !isMatrix(tensor)) return null;
  const names = factsOf(tensor).columns ?? [];
  return Array.from({ length: tensor.shape[1] }, (_, index) => {
    const column = columnOf(tensor, String(names[index] ?? index));
    return { ...column, examples: column.examples.map((row) => row[index]), matrix: true };
  });
}

const isColumn = ({ shape }) => shape[0] === -1 && (shape.length === 1 || (shape.length === 2 && shape[1] === 1));

const isMatrix = ({ shape }) => shape.length === 2 && shape[0] === -1 && shape[1] > 0 && shape[1] <= MAX_COLUMNS;

function columnOf(tensor, name) {
  const facts = factsOf(tensor);
  const examples = facts.examples ?? [];
  const known = facts.choices ?? examples;
  const flags = known.length > 0 && known.every((each) => typeof each === "boolean");
  const kind = flags ? "yes or no" : facts.choices ? "choice" : wordOf(tensor.datatype, contentOf(tensor), facts.format);
  return { name, tensor, kind, choices: facts.choices, examples, nullable: Boolean(tensor.parameters?.nullable) || facts.optional, optional: facts.optional, matrix: false };
}

/** The cell of the first row, which the model accepts. */
export function exampleCell({ kind, choices, examples, tensor }) {
  if (kind === "yes or no") return examples[0] ?? true;
  const number = tensor.datatype.startsWith("U") ? 0 : 1;
  const [value = { choice: "", text: "text", integer: number, number }[kind] ?? timeOf(kind)] = choices ?? examples;
  return String(value);
}

/** A cell from the text of a file or of the clipboard. Throws an Error that names the fault. */
export function cellOf(column, text) {
  const trimmed = text.trim();
  if (column.kind !== "yes or no") {
    const isNumber = column.kind === "number" || column.kind === "integer";
    const cell = column.kind === "text" ? text : ((isNumber && FLAGS.get(trimmed)) || trimmed);
    valueOf(column, cell);
    return cell;
  }
  if (trimmed === "" && column.nullable) return null;
  const word = trimmed.toLowerCase();
  if (TRUE.includes(word)) return true;
  if (FALSE.includes(word)) return false;
  throw new Error(`"${brief(trimmed)}" is neither yes nor no`);
}

/** The value of a cell as it is sent; null for a missing one. Throws an Error that names the fault. */
export function valueOf(column, cell) {
  const { kind, tensor, nullable, choices } = column;
  if (kind === "yes or no") {
    if (cell === null && !nullable) throw new Error("a value is missing");
    return cell === null || tensor.datatype === "BOOL" ? cell : Number(cell);
  }
  const text = kind === "text" ? cell : cell.trim();
  if (text === "" && nullable) return null;
  if (kind === "text") return text;
  if (text === "") throw new Error("a value is missing");
  if (choices) {
    const found = choices.find((each) => String(each) === text);
    if (found === undefined) throw new Error(`"${brief(text)}" is not one of ${choices.slice(0, 8).join(", ")}${choices.length > 8 ? ", …" : ""}`);
    return found;
  }
  if (kind !== "integer" && kind !== "number") return text;
  const value = /^[-+]?(\d|\.\d)/.test(text) ? Number(text) : NaN;
  if (Number.isNaN(value)) throw new Error(`"${brief(text)}" is not a number${DECIMAL_COMMA.test(text) ? " with a decimal point" : ""}`);
  if (kind === "number") return value;
  if (!Number.isInteger(value)) throw new Error(`"${brief(text)}" is not an integer`);
  if (!Number.isSafeInteger(value)) throw new Error(`"${brief(text)}" is too large for a browser to keep exactly`);
  return value;
}

export const brief = (text) => (text.length > 40 ? `${text.slice(0, 40)}…` : text);

/** The inputs of a V2 request for rows of values. Optional columns without a value are left out. */
export function tensorsOf(columns, rows) {
  if (columns[0].matrix) {
    const { name, datatype } = columns[0].tensor;
    return [{ name, shape: [rows.length, columns.length], datatype, data: rows.flat() }];
  }
  const given = columns.map((column, index) => ({ ...column, data: rows.map((row) => row[index]) }));
  return given
    .filter(({ optional, data }) => !optional || data.some((value) => value !== null))
    .map(({ name, tensor, data }) => ({ name, shape: tensor.shape.length === 2 ? [rows.length, 1] : [rows.length], datatype: tensor.datatype, data }));
}

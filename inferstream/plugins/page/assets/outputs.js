// Shows one output: a picture, a sound, a table, a chart, bars or JSON.

import { h, head, scrollTable, scrollText } from "./dom.js";
import { bytesOf, mediaTypeOf, shapeOf } from "./calls.js";
import { pretty, sizeOf } from "./fields.js";
import { classBars, probabilitiesOf } from "./rows.js";
import { brief, cellText, chart, picture } from "./plots.js";

const MOST_ROWS = 100;

export const isSmall = ({ kind, value }) => kind === "text" || (kind === "values" && !Array.isArray(value));

export function isPicture({ kind, value, type }) {
  if (kind !== "file") return false;
  try {
    return (type ?? mediaTypeOf(bytesOf(value.slice(0, 24)))).startsWith("image/");
  } catch {
    return false; // it is not base64
  }
}

/** Free the memory of the files that an element shows. */
export function release(element) {
  for (const { href } of element.querySelectorAll("a[download]")) URL.revokeObjectURL(href);
}

/** One output, shown by its type. */
export const block = (output, titled) => h("section", { class: "output" }, titled && h("h3", {}, output.name), contents(output));

/** All outputs. If there are several, each has its name as a title. */
export const blocks = (outputs) => outputs.map((output) => block(output, outputs.length > 1));

function contents(output) {
  const { name, kind, value, type } = output;
  if (value === null || value === undefined) return h("p", { class: "quiet" }, "null");
  if (kind === "text") return h("div", { class: "stream-text", tabindex: 0, role: "region", "aria-label": `Text of ${name}` }, value);
  if (kind === "file") return file(name, value, type);
  if (kind === "files") return value.map((each, index) => file(`${name} ${index + 1}`, each));
  const found = probabilitiesOf(value);
  if (found) return classBars(Object.keys(found), Object.values(found), name);
  if (kind === "table") return table(rowsOf(value)) ?? code(value);
  if (kind === "JSON") return code(value);
  if (kind === "classes") return scores(output);
  return values(name, value);
}

function file(name, text, said) {
  let bytes;
  try {
    bytes = bytesOf(text);
  } catch {
    return code(text);
  }
  const type = said ?? mediaTypeOf(bytes);
  const kind = type.split("/")[0];
  if (type.startsWith("text/") || type === "application/json") return code(new TextDecoder().decode(bytes));
  const source = URL.createObjectURL(new Blob([bytes], { type }));
  const download = h("a", { href: source, download: `${name}.${(type.split("/")[1] ?? "bin").replace("octet-stream", "bin")}` }, `Save ${sizeOf(bytes.length)}`);
  let media = null;
  if (kind === "image" && type !== "image/svg+xml") media = h("img", { src: source, alt: `Output ${name}` });
  if (kind === "audio" || kind === "video") media = h(kind, { src: source, controls: true, "aria-label": `Output ${name}` });
  return h("figure", { class: "media" }, media, h("figcaption", {}, type, " · ", download));
}

/** Labels as text, and scores as bars or, for several rows, as a table. */
function scores({ name, value, classes, labels }) {
  const rows = Array.from({ length: value.length / classes.length }, (_, row) => value.slice(row * classes.length, (row + 1) * classes.length));
  if (labels) return value.length === 1 ? h("p", { class: "figure" }, String(value[0])) : table(value.map((each) => ({ [name]: String(each) })));
  return rows.length === 1 ? classBars(classes, value, name) : table(rows.map((row) => Object.fromEntries(row.map((each, index) => [classes[index], each]))));
}

function values(name, value) {
  if (!Array.isArray(value)) return h("p", { class: "figure" }, typeof value === "string" ? value : brief(value));
  const shape = shapeOf(value);
  const flat = value.flat(Infinity);
  if (!flat.every((each) => typeof each === "number" || typeof each === "boolean")) return code(value);
  const [rows, columns] = shape;
  if (shape.length === 3 && (shape[2] === 3 || shape[2] === 4) && columns > 1) return picture(value, name);
  if (shape.length === 2 && rows >= 12 && columns >= 12) return picture(value, name);
  const parts = [];
  if (flat.length > 1 && (shape.length === 1 || rows === 1 || columns === 1)) parts.push(chart(flat, name));
  if (shape.length === 2 && columns <= 24) parts.push(table(numbered(value)));
  parts.push(h("details", { open: parts.length === 0 }, h("summary", {}, `Values, shape ${shape.join(" × ")}`), code(value)));
  return parts;
}

const numbered = (rows) => rows.map((row) => Object.fromEntries(row.map((value, index) => [`[${index}]`, value])));

/** Rows of named columns: a list of objects, or an object of columns, as a data frame is sent. */
function rowsOf(value) {
  if (Array.isArray(value)) return value;
  const columns = Object.entries(value).filter(([, cells]) => Array.isArray(cells));
  const count = Math.max(0, ...columns.map(([, cells]) => cells.length));
  return Array.from({ length: count }, (_, row) => Object.fromEntries(columns.map(([name, cells]) => [name, cells[row]])));
}

function table(rows) {
  const names = [...new Set(rows.slice(0, MOST_ROWS).flatMap(Object.keys))];
  if (rows.length === 0 || names.length === 0) return null;
  const kind = (value) => (typeof value === "number" ? "number" : null);
  const heads = names.map((name) => head(name, kind(rows[0][name])));
  const body = rows.slice(0, MOST_ROWS).map((row) => h("tr", {}, names.map((name) => h("td", { class: kind(row[name]) }, cellText(row[name])))));
  const more = rows.length > MOST_ROWS ? h("p", { class: "quiet" }, `${rows.length - MOST_ROWS} more rows`) : null;
  return h("div", {}, scrollTable("Rows", heads, h("tbody", {}, body)), more);
}

function code(value) {
  const text = typeof value === "string" ? value : pretty(value);
  return scrollText("JSON", text.length > 200_000 ? `${text.slice(0, 200_000)} …` : text);
}

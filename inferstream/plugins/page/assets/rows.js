// Outputs by row: next to the rows that caused them, with class names, as bars, and as a CSV file.

import { h, scrollTable } from "./dom.js";
import { saveCsv } from "./csv.js";
import { classesOf } from "./calls.js";
import { brief } from "./plots.js";

const MAX_ROWS = 100;
const MAX_HEADS = 24;
const MAX_CLASSES = 12;
const MAX_BARS = 10;

/** A table of the outputs beside the input rows; null unless each output has one row for each of them. */
export function rowsView(data, model, { columns, rows, others }) {
  const tensors = data?.outputs ?? [];
  if (tensors.length === 0 || tensors.some(({ shape, data: values }) => shape?.[0] !== rows.length || !Array.isArray(values))) return null;
  const parts = tensors.flatMap((tensor) => partsOf(tensor, model));
  const heads = parts.map(({ group, title }) => h("th", { scope: "col" }, group ? h("span", { class: "kind" }, group, " ") : null, title));
  const given = [...others.names, ...columns.map(({ name }) => name)].map((name) => h("th", { scope: "col", class: "input" }, name));
  const body = rows.slice(0, MAX_ROWS).map((row, at) =>
    h("tr", {}, h("th", { scope: "row" }, String(at + 1)), parts.map((part) => part.cell(at)), [...(others.rows[at] ?? []), ...row].map((value) => h("td", { class: "input" }, shown(value)))),
  );
  const corner = h("th", { scope: "col" }, h("span", { class: "unseen" }, "Row"));
  const more = rows.length > MAX_ROWS ? h("p", { class: "quiet" }, `The first ${MAX_ROWS} of ${rows.length.toLocaleString("en")} rows are shown. The file has all.`) : null;
  const save = h("button", { type: "button", class: "small", onclick: () => saveCsv(`${model.name}.csv`, ...csvOf(tensors, model, columns, rows, others)) }, "Save as CSV");
  return h("section", { class: "output" }, scrollTable("Outputs by row", [corner, heads, given].flat(), h("tbody", {}, body)), h("div", { class: "chips" }, save, more));
}

/** The columns of one output: each class, each value, or all of them in one. */
function partsOf(tensor, model) {
  const { name, data } = tensor;
  const width = data.length / tensor.shape[0];
  const classes = classesOf(tensor, model);
  const scores = classes?.length === width && width > 1 && data.every((value) => value >= 0 && value <= 1);
  const at = (row, index) => data[row * width + index];
  if (scores && width <= MAX_CLASSES) {
    return classes.map((title, index) => ({ group: name, title: String(title), cell: (row) => barCell(at(row, index)) }));
  }
  if (scores) return [{ title: name, cell: (row) => h("td", {}, best(classes, data.slice(row * width, (row + 1) * width))) }];
  if (width === 1) return [{ title: name, cell: (row) => h("td", { class: "outcome" }, shown(at(row, 0))) }];
  if (width > MAX_HEADS) return [{ title: name, cell: (row) => h("td", {}, JSON.stringify(data.slice(row * width, row * width + MAX_HEADS)).replace(/]$/, ", …]")) }];
  return Array.from({ length: width }, (_, index) => ({ group: name, title: String(classes?.[index] ?? index), cell: (row) => h("td", { class: "number" }, shown(at(row, index))) }));
}

const shown = (value) => (value === null || value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : brief(value));

function barCell(value) {
  const cell = h("td", { class: "number share" }, value.toFixed(3));
  cell.style.setProperty("--share", value);
  return cell;
}

/** The three best classes of many. */
function best(classes, values) {
  return ranked(classes, values, 3).map(({ title, value }) => `${title} ${value.toFixed(3)}`).join(", ");
}

function ranked(classes, values, most) {
  const found = classes.map((title, index) => ({ title: String(title), value: values[index] }));
  return found.sort((one, other) => other.value - one.value).slice(0, most);
}

/** Probabilities by label, from an object of them or a list of labels with scores; null for anything else. */
export function probabilitiesOf(value) {
  const scored = Array.isArray(value) && value.length > 1 && value.every((each) => typeof each?.label === "string" && Object.keys(each).length === 2);
  const found = scored ? Object.fromEntries(value.map(({ label, score }) => [label, score])) : value;
  if (found === null || typeof found !== "object" || Array.isArray(found)) return null;
  const scores = Object.values(found);
  const sum = scores.reduce((total, each) => total + (each >= 0 ? each : NaN), 0);
  return scores.length > 1 && scores.every((each) => typeof each === "number") && Math.abs(sum - 1) < 0.01 ? found : null;
}

/** The scores of one row as bars, the best first. */
export function classBars(classes, values, name) {
  const items = ranked(classes, values, MAX_BARS).map(({ title, value }) => {
    const item = h("li", {}, h("span", {}, title), h("span", { class: "share" }), h("span", { class: "number" }, value.toFixed(3)));
    item.style.setProperty("--share", value);
    return item;
  });
  const others = classes.length - items.length;
  return h("div", {}, h("ol", { class: "shares", "aria-label": `Classes of ${name}` }, items), others > 0 ? h("p", { class: "quiet" }, `${others} more classes`) : null);
}

/** The header and the rows of a CSV file: inputs, then outputs. */
function csvOf(tensors, model, columns, rows, others) {
  const widths = tensors.map(({ data, shape }) => data.length / shape[0]);
  const titles = tensors.flatMap((tensor, place) => {
    const classes = classesOf(tensor, model);
    const width = widths[place];
    return width === 1 ? [tensor.name] : Array.from({ length: width }, (_, index) => `${tensor.name}[${classes?.length === width ? classes[index] : index}]`);
  });
  const header = [...others.names, ...columns.map(({ name }) => name), ...titles];
  return [header, rows.map((row, at) => [...(others.rows[at] ?? []), ...row, ...tensors.flatMap(({ data }, place) => data.slice(at * widths[place], (at + 1) * widths[place]))])];
}

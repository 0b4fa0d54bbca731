// Outputs by row: next to the rows that caused them, with class names, as bars, and as a CSV file.

import { button, h, head, scrollTable } from "./dom.js";
import { saveCsv } from "./csv.js";
import { classesOf } from "./calls.js";
import { cellText } from "./plots.js";
import { shownRows } from "./turns.js";

const MAX_HEADS = 24;
const MAX_CLASSES = 12;
const MAX_BARS = 10;

/** A table of the outputs next to the input rows; null unless each output has one row for each of them. */
export function rowsView(data, model, { columns, rows, others }) {
  const tensors = data?.outputs ?? [];
  if (tensors.length === 0 || tensors.some(({ shape, data: values }) => shape?.[0] !== rows.length || !Array.isArray(values))) return null;
  const outputs = tensors.map((tensor) => outputOf(tensor, model));
  const parts = outputs.flatMap(partsOf);
  const names = [...others.names, ...columns.map(({ name }) => name)];
  const valuesOf = (row, at) => [...(others.rows[at] ?? []), ...row];
  const most = shownRows(parts.length + names.length);
  const order = [...rows.keys()];
  const body = h("tbody", {});
  const draw = () => body.replaceChildren(...order.slice(0, most).map((at) => {
    const inputs = valuesOf(rows[at], at).map((value) => h("td", { class: "input" }, String(value ?? "")));
    return h("tr", {}, h("th", { scope: "row" }, String(at + 1)), parts.map((part) => part.cell(at)), inputs);
  }));
  /** Sort all rows by a column, and in the other direction the second time. */
  function sort(title, valueAt) {
    const turn = title.ariaSort === "ascending" ? -1 : 1;
    for (const each of heads) each.ariaSort = null;
    title.ariaSort = turn < 0 ? "descending" : "ascending";
    order.sort((one, other) => turn * compare(keyOf(valueAt(one)), keyOf(valueAt(other))));
    draw();
  }
  const more = rows.length > most ? h("p", { class: "help" }, `${most} of ${rows.length.toLocaleString("en")} rows are shown. Sorting and the file include all.`) : null;
  const fields = [...names, ...outputs.flatMap(({ titles }) => titles)];
  const save = () => saveCsv(`${model.name}.csv`, fields, rows, (row, at) => [...valuesOf(row, at), ...outputs.flatMap((output) => output.of(at))]);
  const inputAt = (index) => (at) => (index < others.names.length ? others.rows[at]?.[index] : rows[at][index - others.names.length]);
  const titles = [["Row", null, (at) => at], ...parts.map(({ title, valueAt }) => [title, null, valueAt]), ...names.map((name, index) => [name, "input", inputAt(index)])];
  const heads = titles.map(([content, kind, valueAt]) => head(h("button", { type: "button", class: "sort", onclick: (event) => sort(event.currentTarget.parentElement, valueAt) }, content), kind));
  draw();
  return h("section", { class: "output" }, scrollTable("Outputs by row", heads, body), h("div", { class: "chips" }, button("Save as CSV", save), more));
}

/** A value to sort by. Cells of columns that the model does not have are text. */
const keyOf = (value) => (typeof value === "string" && value.trim() && !Number.isNaN(Number(value)) ? Number(value) : (value ?? null));

/** The order of two values. Missing ones come last. */
const compare = (one, other) => (one === null) - (other === null) || (one > other) - (one < other);

/** An output with its class names, the values `of` each row, and their titles in a CSV file. */
function outputOf({ name, data, shape, parameters }, model) {
  const width = data.length / shape[0];
  const classes = classesOf({ name, parameters }, model);
  const words = Array.from({ length: width }, (_, index) => String(classes?.length === width ? classes[index] : index));
  const titles = width === 1 ? [name] : words.map((word) => `${name}[${word}]`);
  const scored = classes?.length === width && width > 1 && data.every((value) => value >= 0 && value <= 1);
  return { name, words, titles, scored, width, of: (row) => data.slice(row * width, (row + 1) * width) };
}

/** The columns of one output: each class, each value, or all of them in one. */
function partsOf({ name, words, scored, width, of }) {
  const valueAt = (row) => of(row)[0];
  const highest = (row) => Math.max(...of(row));
  if (width === 1) return [{ title: name, valueAt, cell: (row) => h("td", { class: "outcome" }, cellText(valueAt(row))) }];
  if (scored && width > MAX_CLASSES) return [{ title: name, valueAt: highest, cell: (row) => h("td", {}, best(words, of(row))) }];
  if (width > MAX_HEADS) return [{ title: name, valueAt, cell: (row) => h("td", {}, JSON.stringify(of(row).slice(0, MAX_HEADS)).replace(/]$/, ", …]")) }];
  const cell = scored ? barCell : (value) => h("td", { class: "number" }, cellText(value));
  const part = (word, read) => ({ title: [h("span", { class: "kind" }, name, " "), word], valueAt: read, cell: (row) => cell(read(row)) });
  const found = words.map((word, index) => part(word, (row) => of(row)[index]));
  return scored ? [...found, part("highest", highest)] : found; // rows of low confidence sort to the top
}

const barCell = (value) => withShare(h("td", { class: "number share" }, value.toFixed(3)), value);

/** Draw a share as a bar in the background of an element. */
function withShare(element, share) {
  element.style.setProperty("--share", share);
  return element;
}

/** The three best classes of many. */
const best = (classes, values) => ranked(classes, values, 3).map(({ title, value }) => `${title} ${value.toFixed(3)}`).join(", ");

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
  const items = ranked(classes, values, MAX_BARS).map(({ title, value }) =>
    withShare(h("li", {}, h("span", {}, title), h("span", { class: "share" }), h("span", { class: "number" }, value.toFixed(3))), value),
  );
  const others = classes.length - items.length;
  return h("div", {}, h("ol", { class: "shares", "aria-label": `Classes of ${name}` }, items), others > 0 ? h("p", { class: "quiet" }, `${others} more classes`) : null);
}

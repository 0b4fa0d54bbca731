// Shows responses: a text as it grows, values of a stream, pictures, sounds, tables, charts and JSON.

import { announce, copyButton, h } from "./dom.js";
import { bytesOf, mediaTypeOf, outputsOf, shapeOf } from "./calls.js";
import { pretty, sizeOf } from "./fields.js";
import { GapPlot, brief, chart, duration, picture } from "./plots.js";

const MOST_ROWS = 100;
const MOST_ITEMS = 200;
const MOST_VALUES = 500;
const MOST_TAIL = 8000;
const LONGEST_TURN = 40;

/** Counts and times of one stream, with the plot of its gaps. */
export class Figures {
  constructor(word) {
    this.word = word;
    this.count = 0;
    this.began = performance.now();
    this.first = null;
    this.last = null;
    this.plot = new GapPlot(word);
    this._cells = Object.fromEntries(
      [
        ["first", `first ${word.replace(/s$/, "")}`],
        ["rate", `${word}/s`],
        ["count", word],
        ["time", "time"],
      ].map(([key, label]) => [key, { label, value: h("dd", {}, "–") }]),
    );
    const cells = Object.values(this._cells).map(({ label, value }) => h("div", {}, h("dt", {}, label), value));
    this.element = h("div", { class: "figures" }, h("dl", {}, cells), this.plot.element);
  }

  note() {
    const now = performance.now();
    if (this.last !== null) this.plot.push(now - this.last);
    this.first ??= now;
    this.last = now;
    this.count += 1;
  }

  get rate() {
    return this.count > 1 && this.last > this.first ? ((this.count - 1) * 1000) / (this.last - this.first) : null;
  }

  draw() {
    const show = (key, text) => (this._cells[key].value.textContent = text);
    if (this.first !== null) show("first", duration(this.first - this.began));
    if (this.rate !== null) show("rate", this.rate >= 100 ? String(Math.round(this.rate)) : this.rate.toFixed(1));
    show("count", String(this.count));
    show("time", duration((this._ended ?? performance.now()) - this.began));
    this.plot.draw();
  }

  end() {
    this._ended = performance.now();
    this.draw();
  }

  get summary() {
    const rate = this.rate === null ? "" : `, ${this.rate.toFixed(1)} ${this.word} a second`;
    return `${this.count} ${this.word} in ${duration(this._ended - this.began)}${rate}`;
  }
}

/** Calls `paint` once before the next frame, however often it is asked. */
export function eachFrame(paint) {
  let asked = null;
  const ask = () => (asked ??= requestAnimationFrame(() => ((asked = null), paint())));
  ask.now = () => {
    if (asked !== null) cancelAnimationFrame(asked);
    asked = null;
    paint();
  };
  return ask;
}

/** Lets the browser paint when a loop has run for long: items that are there already come without a pause. */
export class Turns {
  _began = performance.now();

  async rest() {
    if (performance.now() - this._began < LONGEST_TURN) return;
    await new Promise((resolve) => setTimeout(resolve));
    this._began = performance.now();
  }
}

/**
 * The text of a stream, painted once for each frame. Follows its end while the reader does.
 *
 * What no later text changes is a block that is made once, so a frame costs what is new. `format` gives the end of
 * such blocks and the elements of a text; without it a text is shown as it is.
 */
export class GrowingText {
  constructor(label, format = null) {
    this.whole = "";
    this._format = format;
    this._tail = format ? h("div") : document.createTextNode("");
    this.element = h("div", { class: format ? "stream-text markdown" : "stream-text", tabindex: 0, role: "region", "aria-label": label }, this._tail);
    this._waiting = [];
    this._rest = "";
  }

  push(text) {
    this._waiting.push(text);
  }

  paint() {
    if (this._waiting.length === 0) return;
    const box = this.element;
    const follows = box.scrollTop + box.clientHeight >= box.scrollHeight - 24;
    const text = this._waiting.join("");
    this._waiting = [];
    this.whole += text;
    this._rest += text;
    for (let end = this._end(); end > 0; end = this._end()) {
      const block = this._rest.slice(0, end);
      this._rest = this._rest.slice(end);
      this._tail.before(h("div", { class: "block" }, this._format ? this._format.rendered(block) : block));
    }
    if (this._format) this._tail.replaceChildren(...this._format.rendered(this._rest));
    else this._tail.data = this._rest;
    if (follows) box.scrollTop = box.scrollHeight;
  }

  /** Where the next block ends; 0 if the rest may still change, and is short. */
  _end() {
    const end = this._format ? this._format.completeEnd(this._rest.slice(0, MOST_TAIL)) : 0;
    if (end > 0 || this._rest.length <= MOST_TAIL) return end;
    const at = (mark) => this._rest.lastIndexOf(mark, MOST_TAIL - 1) + 1;
    return at("\n") || at(" ") || MOST_TAIL;
  }
}

/** What one run gives. */
export class Results {
  constructor(model, streamed) {
    this._model = model;
    this._streamed = streamed;
    this._texts = new Map();
    this._numbers = [];
    this._body = h("div", { class: "outputs" });
    this._list = null;
    this._last = [];
    this._frame = null;
    this._frames = null;
    this.figures = streamed ? new Figures(model.texts ? "tokens" : "items") : null;
    this.element = h("div", { class: "results" }, this._body, this.figures?.element);
    this._paint = eachFrame(() => this._draw());
    this._began = performance.now();
    this.items = 0;
  }

  take({ data, event }) {
    this.items += 1;
    const outputs = outputsOf(data, this._model);
    this._last = outputs;
    if (!this._streamed) {
      this._body.replaceChildren(...outputs.map((output) => block(output, outputs.length > 1)));
      return;
    }
    this.figures.note();
    const named = event !== undefined && event !== "message" ? event : "";
    if (outputs.some(isPicture)) {
      this._frame = outputs;
    } else if (!named && outputs.length > 0 && outputs.every(({ kind }) => kind === "text") && this._list === null) {
      for (const { name, value } of outputs) this._textOf(name, outputs.length > 1).push(value);
    } else {
      this._add(outputs, named);
    }
    this._paint();
  }

  _textOf(name, titled) {
    let text = this._texts.get(name);
    if (text === undefined) {
      text = new GrowingText(`Text of ${name}`);
      this._texts.set(name, text);
      this._body.append(h("section", { class: "output" }, titled ? h("h4", {}, name) : null, text.element));
    }
    return text;
  }

  /** The newest frame of a stream of pictures, whole, in the place of the one before once it is decoded. */
  async _showFrame() {
    if (this._frame === null || this._decoding) return;
    this._decoding = true;
    const next = h("div", { class: "outputs frame" }, this._frame.map((output) => block(output, this._frame.length > 1)));
    this._frame = null;
    await Promise.allSettled([...next.querySelectorAll("img")].map((picture) => picture.decode()));
    if (this._frames === null) {
      this._body.append(next);
    } else {
      release(this._frames);
      this._frames.replaceWith(next);
    }
    this._frames = next;
    this._decoding = false;
    if (this._frame !== null) this._paint();
  }

  /** An item of a stream of values, in a list. */
  _add(outputs, event) {
    if (this._list === null) {
      this._chart = h("div", {});
      this._list = h("ol", { class: "items", tabindex: 0, "aria-label": "Items of the stream" });
      this._body.append(this._chart, this._list);
    }
    const [only] = outputs;
    if (outputs.length === 1 && typeof only.value === "number") {
      this._numbers.push(only.value);
      if (this._numbers.length > 2 * MOST_VALUES) this._numbers = this._numbers.slice(-MOST_VALUES);
    }
    const shown = outputs.map((output) => (isSmall(output) ? h("code", {}, brief(output.value)) : block(output, outputs.length > 1)));
    const at = `${((performance.now() - this._began) / 1000).toFixed(2)} s`;
    this._list.append(h("li", {}, h("span", { class: "at" }, at), event ? h("span", { class: "chip" }, event) : null, h("div", {}, shown)));
    while (this._list.childElementCount > MOST_ITEMS) {
      release(this._list.firstChild);
      this._list.firstChild.remove();
    }
    this._list.scrollTop = this._list.scrollHeight;
  }

  _draw() {
    for (const text of this._texts.values()) text.paint();
    this._showFrame();
    if (this._numbers.length > 1) this._chart.replaceChildren(chart(this._numbers.slice(-MOST_VALUES), "values"));
    this.figures?.draw();
    const last = [...this._texts.values()].at(-1)?.whole ?? "";
    if (this.items && last) announce(last.slice(-160));
  }

  /** What there is to copy: a text as it came, anything else as JSON. */
  get text() {
    const texts = [...this._texts.values()].map(({ whole }) => whole);
    if (texts.length) return texts.join("\n");
    const [only, ...others] = this._last;
    if (only === undefined || this._last.some(({ kind }) => kind.startsWith("file"))) return "";
    if (others.length === 0) return typeof only.value === "string" ? only.value : pretty(only.value);
    return pretty(Object.fromEntries(this._last.map(({ name, value }) => [name, value])));
  }

  /** The run is over, in this way: "done" or "stopped". */
  end(how) {
    this.figures?.end();
    if (this._streamed) this._paint.now();
    const took = duration(performance.now() - this._began);
    announce(this.figures === null ? `${how} in ${took}` : `${how}: ${this.figures.summary}`);
    return this.figures === null ? `${how} in ${took}` : how;
  }
}

const isSmall = ({ kind, value }) => kind === "text" || (kind === "values" && !Array.isArray(value));

function isPicture({ kind, value, type }) {
  if (kind !== "file") return false;
  try {
    return (type ?? mediaTypeOf(bytesOf(value.slice(0, 24)))).startsWith("image/");
  } catch {
    return false; // it is no base64
  }
}

/** Free the files that an element shows. A browser keeps each until then. */
export function release(element) {
  for (const { href } of element.querySelectorAll("a[download]")) URL.revokeObjectURL(href);
}

/** One output, in the way that suits it. */
export function block(output, titled) {
  return h("section", { class: "output" }, titled ? h("h4", {}, output.name) : null, contents(output));
}

function contents({ name, kind, value, type }) {
  if (value === null || value === undefined) return h("p", { class: "quiet" }, "null");
  if (kind === "text") return h("div", { class: "stream-text", tabindex: 0, role: "region", "aria-label": `Text of ${name}` }, value);
  if (kind === "file") return file(name, value, type);
  if (kind === "files") return value.map((each, index) => file(`${name} ${index + 1}`, each));
  if (kind === "table") return table(rowsOf(value)) ?? code(value);
  if (kind === "JSON") return code(value);
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
  if (type.startsWith("text/") || type === "application/json") return code(new TextDecoder().decode(bytes));
  const source = URL.createObjectURL(new Blob([bytes], { type }));
  const download = h("a", { href: source, download: `${name}.${(type.split("/")[1] ?? "bin").replace("octet-stream", "bin")}` }, `Save ${sizeOf(bytes.length)}`);
  let media = null;
  if (type.startsWith("image/") && type !== "image/svg+xml") media = h("img", { src: source, alt: `Output ${name}` });
  if (type.startsWith("audio/")) media = h("audio", { src: source, controls: true, "aria-label": `Output ${name}` });
  if (type.startsWith("video/")) media = h("video", { src: source, controls: true, "aria-label": `Output ${name}` });
  return h("figure", { class: "media" }, media, h("figcaption", {}, type, " · ", download));
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

/** Rows of named columns: a list of objects, or an object of columns as data frames are written. */
function rowsOf(value) {
  if (Array.isArray(value)) return value;
  const columns = Object.entries(value).filter(([, cells]) => Array.isArray(cells));
  const count = Math.max(0, ...columns.map(([, cells]) => cells.length));
  return Array.from({ length: count }, (_, row) => Object.fromEntries(columns.map(([name, cells]) => [name, cells[row]])));
}

export function table(rows) {
  const names = [...new Set(rows.slice(0, MOST_ROWS).flatMap(Object.keys))];
  if (rows.length === 0 || names.length === 0) return null;
  const kind = (value) => (typeof value === "number" ? "number" : null);
  const head = h("tr", {}, names.map((name) => h("th", { scope: "col", class: kind(rows[0][name]) }, name)));
  const body = rows.slice(0, MOST_ROWS).map((row) =>
    h("tr", {}, names.map((name) => h("td", { class: kind(row[name]) }, cell(row[name])))),
  );
  const more = rows.length > MOST_ROWS ? h("p", { class: "quiet" }, `${rows.length - MOST_ROWS} more rows`) : null;
  const scroller = { class: "table", tabindex: 0, role: "region", "aria-label": "Rows" };
  return h("div", {}, h("div", scroller, h("table", {}, h("thead", {}, head), h("tbody", {}, body))), more);
}

function cell(value) {
  if (value === null || value === undefined) return "";
  return typeof value === "object" ? JSON.stringify(value) : brief(value);
}

function code(value) {
  const text = typeof value === "string" ? value : pretty(value);
  return h("pre", { tabindex: 0, role: "region", "aria-label": "JSON" }, text.length > 200_000 ? `${text.slice(0, 200_000)} …` : text);
}

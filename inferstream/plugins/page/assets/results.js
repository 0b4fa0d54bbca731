// Shows responses: a text as it grows, the items of a stream, or the outputs of one response.

import { announce, h } from "./dom.js";
import { outputsOf } from "./calls.js";
import { pretty } from "./fields.js";
import { block, blocks, isPicture, isSmall, release } from "./outputs.js";
import { GapPlot, brief, chart, duration } from "./plots.js";
import { rowsView } from "./rows.js";
import { eachFrame } from "./turns.js";

const MOST_ITEMS = 200;
const MOST_VALUES = 500;
const MOST_TAIL = 8000;

/** Counts and times of one stream, with the plot of its gaps. */
export class Figures {
  constructor(word) {
    this.word = word;
    this.count = 0;
    this.began = performance.now();
    this.first = null;
    this.last = null;
    this.plot = new GapPlot(word);
    const labels = [`first ${word.replace(/s$/, "")}`, `${word}/s`, word, "time"];
    this._values = labels.map(() => h("dd", {}, "–"));
    const cells = labels.map((label, index) => h("div", {}, h("dt", {}, label), this._values[index]));
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
    const [first, rate, count, time] = this._values;
    if (this.first !== null) first.textContent = duration(this.first - this.began);
    if (this.rate !== null) rate.textContent = this.rate.toFixed(this.rate >= 100 ? 0 : 1);
    count.textContent = this.count;
    time.textContent = duration((this._ended ?? performance.now()) - this.began);
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

/**
 * The text of a stream, painted once for each frame. It stays scrolled to the end, unless the user scrolls up.
 *
 * Text that later text cannot change is drawn once, as a block, so a frame only draws new text. `format` finds the
 * end of such blocks and makes the elements of a text. Without it, the text is not formatted.
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

  /** The end of the next block; 0 if the rest is short and may still change. */
  _end() {
    const end = this._format ? this._format.completeEnd(this._rest.slice(0, MOST_TAIL)) : 0;
    if (end > 0 || this._rest.length <= MOST_TAIL) return end;
    const at = (mark) => this._rest.lastIndexOf(mark, MOST_TAIL - 1) + 1;
    return at("\n") || at(" ") || MOST_TAIL;
  }
}

/** The output of one run. */
export class Results {
  /** `table` has the columns and rows of the call, if the input is a table, so that outputs are shown by row. */
  constructor(model, streamed, table = null) {
    this._model = model;
    this._table = table;
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
      const rows = this._table && rowsView(data, this._model, this._table);
      this._body.replaceChildren(...(rows ? [rows] : blocks(outputs)));
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
      this._body.append(h("section", { class: "output" }, titled ? h("h3", {}, name) : null, text.element));
    }
    return text;
  }

  /** Show the newest frame of a stream of pictures when it is decoded, in place of the last one. */
  async _showFrame() {
    if (this._frame === null || this._decoding) return;
    this._decoding = true;
    const next = h("div", { class: "outputs frame" }, blocks(this._frame));
    this._frame = null;
    await Promise.allSettled([...next.querySelectorAll("img")].map((picture) => picture.decode()));
    if (this._frames === null) this._body.append(next);
    else release(this._frames);
    this._frames?.replaceWith(next);
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

  /** Whether there is something to copy. */
  get hasText() {
    return this._texts.size > 0 || (this._last.length > 0 && !this._last.some(({ kind }) => kind.startsWith("file")));
  }

  /** The text to copy: text as it is, other outputs as JSON. */
  get text() {
    if (this._texts.size) return [...this._texts.values()].map(({ whole }) => whole).join("\n");
    const [only, ...others] = this._last;
    if (others.length === 0) return typeof only.value === "string" ? only.value : pretty(only.value);
    return pretty(Object.fromEntries(this._last.map(({ name, value }) => [name, value])));
  }

  /** End the run. `how` is "Done", "Stopped" or "Failed". Returns a summary. */
  end(how) {
    this.figures?.end();
    if (this._streamed) this._paint.now();
    const took = `${how} in ${duration(performance.now() - this._began)}`;
    announce(this.figures ? `${how}: ${this.figures.summary}` : took);
    return this.figures ? how : took;
  }
}

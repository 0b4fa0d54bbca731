// Runs a model from a form: its fields, Run and Stop, and the output.

import { announce, button, copyButton, h, icon } from "./dom.js";
import { bodyOf, responses } from "./calls.js";
import { errorBox } from "./errors.js";
import { TEXT, WrongValue, factsOf, fieldOf } from "./fields.js";
import { release } from "./outputs.js";
import { Results } from "./results.js";
import { tensorsOf } from "./columns.js";
import { tableOf } from "./table.js";
import { Turns } from "./turns.js";

const NAMED = /\b(?:argument|input|column|parameter|key) "([^"]+)"/;
const PART = /\bfield "([^"]+)"/;

const MAX_CODED_ROWS = 20;

/** The input of a model that declares none: a whole request. */
const REQUEST = {
  name: "Request",
  datatype: "BYTES",
  shape: [1],
  parameters: {
    content_type: "json",
    description: "A V2 request, because this model declares no inputs.",
    schema: JSON.stringify({ examples: [{ inputs: [{ name: "x", shape: [1, 3], datatype: "FP32", data: [1, 2, 3] }] }] }),
  },
};

/** Whether all inputs are optional. The first input of such a language model is the prompt, which it needs. */
const takesPromptOnly = (inputs) => inputs.length > 0 && inputs.every((each) => factsOf(each).optional && factsOf(each).fallback === undefined);

/** The form of one model, and the result of its last run. */
export class Runner {
  constructor(model, server, changed) {
    this._model = model;
    this._server = server;
    this._changed = () => {
      if (this._note.dataset.state === "done") this._say("The input has changed since then", "");
      changed();
    };
    this._leaving = null;
    this._note = h("p", { class: "note" });
    this._table = tableOf(model, () => this._changed(), () => this._forget("Run the model to see what it returns."));
    this._takesRequest = model.inputs.length === 0 && !model.strict;
    const inputs = this._takesRequest ? [REQUEST] : model.inputs;
    this._fields = this._table ? [this._table] : inputs.map((tensor) => fieldOf(tensor));
    this._outputs = choiceOf(model, this._table !== null);
    this._examples = model.examples;
    if (this._examples.length) this._fill(this._examples[0]);
    else if (model.texts && takesPromptOnly(model.inputs)) this._fields[0].write(TEXT);
    this._streamed = h("input", { type: "checkbox", id: "as-stream", checked: true, onchange: changed });
    this._run = h("button", { type: "submit", class: "primary" }, icon("play"), "Run");
    this._stop = h("button", { type: "button", class: "stop", hidden: true, onclick: () => this.stop() }, icon("stop"), "Stop");
    this._keys = h("span", { class: "keys" });
    this._copy = copyButton(() => this._results.text, "this output");
    this._copy.hidden = true;
    this._output = h("div", { class: "result-body" }, h("p", { class: "quiet empty" }, "Run the model to see what it returns."));
    this.element = h("div", { class: this._table ? "runner wide" : "runner" }, this._form(), this._result());
    this._hint(false);
  }

  get streamed() {
    return this._model.streams && (!this._model.predicts || this._streamed.checked);
  }

  _form() {
    const fields = this._fields.map(({ element }) => element);
    const both = this._model.streams && this._model.predicts;
    const choice = both ? h("label", { class: "check" }, this._streamed, "Stream the response") : null;
    return h(
      "form",
      { class: "card", novalidate: true, "aria-label": `Input of ${this._model.name}`, onsubmit: (event) => this._submit(event), oninput: this._changed, onchange: this._changed },
      h("div", { class: "card-head" }, h("h2", {}, "Input"), this._choice()),
      fields.length ? fields : h("p", { class: "quiet" }, "This model takes no arguments."),
      choice,
      this._outputs.element,
      h("div", { class: "actions" }, this._run, this._stop, this._keys),
    );
  }

  /** A button for each example of the docstring. */
  _choice() {
    if (this._examples.length < 2) return null;
    const buttons = this._examples.map((values, index) => button(`Example ${index + 1}`, () => (this._fill(values), this._changed())));
    return h("span", { class: "chips" }, buttons);
  }

  _fill(values) {
    if (this._table) this._table.write(values);
    else for (const [name, value] of Object.entries(values)) this.field(name).write(value);
  }

  _result() {
    return h("section", { class: "card result", "aria-label": "Output" }, h("div", { class: "card-head" }, h("h2", {}, "Output"), this._note, this._copy), this._output);
  }

  /** Handle a key that was pressed anywhere on the page. */
  key(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this._submit(event);
    if (event.key === "Escape" && this._leaving !== null) this.stop();
  }

  /** Name the key that runs or stops the model. */
  _hint(running) {
    const keys = running ? ["Esc"] : ["Ctrl", "Enter"];
    this._keys.replaceChildren(...keys.flatMap((each) => [h("kbd", {}, each), " "]), running ? "stops" : "runs");
  }

  _submit(event) {
    event.preventDefault();
    if (this._leaving === null) this.run();
  }

  /** The current call, or null if a value is wrong. With `shows`, the form marks wrong values, and a table sends all rows. */
  async call(shows = false) {
    const read = {};
    const files = {};
    let wrong = null;
    for (const field of this._fields) {
      try {
        const value = await field.read(shows ? Infinity : MAX_CODED_ROWS);
        if (value !== undefined) read[field.name] = value;
        if (value !== undefined && field.input?.fileNames) files[field.name] = field.input.fileNames();
      } catch (error) {
        if (!(error instanceof WrongValue)) throw error;
        const at = error.field ?? field;
        if (shows) at.fail(error.message, error.cell);
        wrong ??= at;
      }
    }
    if (wrong !== null && shows) wrong.input?.focus();
    if (wrong !== null) return null;
    const outputs = this._outputs.read();
    const values = this._takesRequest ? read[REQUEST.name] : read;
    const call = this._table ? this._tableCall(read[this._table.name]) : { values, body: bodyOf(this._model, values) };
    if (outputs) call.body = { ...call.body, outputs: outputs.map((name) => ({ name })) };
    return { ...call, outputs, streamed: this.streamed, files };
  }

  /** The call with these rows of the table. */
  _tableCall(rows) {
    const { columns, count, others } = this._table;
    const inputs = tensorsOf(columns, rows);
    const values = Object.fromEntries(inputs.map(({ name, data }) => [name, columns[0].matrix ? rows : data]));
    return { values, body: { inputs }, table: { columns, rows, others }, left: count - rows.length };
  }

  async run() {
    for (const field of this._fields) field.fail("");
    const call = await this.call(true);
    if (this._leaving !== null) return;
    if (call === null) {
      this._forget("Nothing was sent. Correct the input first.", "failed");
      return;
    }
    const leaving = new AbortController();
    this._leaving = leaving;
    const results = new Results(this._model, call.streamed, call.table);
    const turns = new Turns();
    this._results = results;
    this._copy.hidden = true;
    this._busy(true);
    release(this._output);
    this._output.replaceChildren(results.element);
    this._reveal();
    this._say(call.streamed ? "running" : "waiting for the response", "running");
    try {
      for await (const response of responses(this._server, this._model, call, leaving.signal)) {
        results.take(response);
        await turns.rest();
      }
      this._say(results.end("Done"), "done");
    } catch (error) {
      const stopped = leaving.signal.aborted;
      const summary = results.end(stopped ? "Stopped" : "Failed");
      this._say(summary, stopped ? "done" : "failed");
      if (!stopped) this._fail(error, results);
    } finally {
      this._leaving = null;
      this._copy.hidden = !results.hasText;
      this._busy(false);
    }
  }

  stop() {
    this._leaving?.abort();
  }

  /** Remove the output of the last run, which does not belong to this form. */
  _forget(text, state = "") {
    release(this._output);
    this._results = null;
    this._copy.hidden = true;
    this._output.replaceChildren(h("p", { class: "quiet empty" }, text));
    this._say("", state);
  }

  /** On a narrow screen the output is below the form, and may be below the screen. */
  _reveal() {
    const card = this._output.parentElement;
    if (card.getBoundingClientRect().top > innerHeight * 0.6) card.scrollIntoView({ block: "start" });
  }

  _busy(busy) {
    const focused = document.activeElement === this._stop || document.activeElement === this._run;
    this._hint(busy);
    this._run.hidden = busy;
    this._stop.hidden = !busy;
    if (focused) (busy ? this._stop : this._run).focus();
    this._output.setAttribute("aria-busy", String(busy));
  }

  _say(text, state) {
    this._note.textContent = text;
    this._note.dataset.state = state;
  }

  _fail(error, results) {
    const box = errorBox(error, this._server);
    if (results.items) this._output.append(box);
    else this._output.replaceChildren(box);
    const field = this._named(error.message);
    field?.fail(error.message, this._table?.cellOf(NAMED.exec(error.message)[1]));
    field?.input?.focus();
    announce(`Failed: ${error.message}`);
  }

  field(name) {
    if (this._table) return this._table.columns.some((column) => column.name === name) ? this._table : undefined;
    return this._fields.find((each) => each.name === name);
  }

  /** The field whose control has this name: an input, or a part of one. */
  leaf(path) {
    return this._leaves().find((field) => field.path === path);
  }

  /** The field of the input, or of the part of it, that an error names. */
  _named(message) {
    let field = this.field(NAMED.exec(message)?.[1]);
    for (const part of PART.exec(message)?.[1].split(".") ?? []) field = field?.fields?.find(({ name }) => name === part) ?? field;
    return field;
  }

  /** The values of the form, for the form of the same model after a reload. */
  async kept() {
    const found = new Map();
    for (const field of this._leaves()) {
      const value = await Promise.resolve().then(() => (field.cells ? field.cells() : field.read())).catch(() => undefined);
      found.set(field.path, { value, was: field.tensor.datatype });
    }
    return found;
  }

  restore(kept, output) {
    for (const field of this._leaves()) {
      const found = kept.get(field.path);
      if (found && found.was === field.tensor.datatype && found.value !== undefined) field.write(found.value);
    }
    if (output) {
      this._output.replaceChildren(...output._output.childNodes);
      this._say(output._note.textContent, output._note.dataset.state ?? "");
      this._results = output._results;
      this._copy.hidden = output._copy.hidden;
    }
  }

  _leaves() {
    return this._fields.flatMap((field) => field.leaves());
  }

  get running() {
    return this._leaving !== null;
  }

  /** Whether there is output. */
  get used() {
    return Boolean(this._results);
  }
}

/** A check box for each output. `read()` returns the names to request, or undefined for the default outputs. */
function choiceOf(model, usualAll) {
  const { outputs } = model;
  if (model.flat || model.streams || outputs.length < 2 || outputs.length > 12) return { element: null, read: () => undefined };
  const boxes = outputs.map(({ name }) => h("input", { type: "checkbox", checked: true, value: name }));
  const labels = outputs.map(({ name }, index) => h("label", { class: "check" }, boxes[index], name));
  const read = () => {
    const names = boxes.filter(({ checked }) => checked).map(({ value }) => value);
    return names.length === 0 || (names.length === boxes.length && !usualAll) ? undefined : names;
  };
  return { element: h("fieldset", { class: "choices" }, h("legend", { class: "kind" }, "Outputs"), labels), read };
}

// Runs a model from a form: its fields, Run and Stop, and what comes back.

import { announce, copyButton, h, icon } from "./dom.js";
import { bodyOf, responses } from "./calls.js";
import { TEXT, WrongValue, factsOf, fieldOf, pretty } from "./fields.js";
import { Results, Turns, release } from "./results.js";

const NAMED = /\b(?:argument|input|parameter|key) "([^"]+)"/;
const PART = /\bfield "([^"]+)"/;

const EXAMPLE = { inputs: [{ name: "x", shape: [1, 3], datatype: "FP32", data: [1, 2, 3] }] };

/** Whether all inputs may be left out, but not at once: those of a language model, which begin with the prompt. */
const takesPromptOnly = (inputs) => inputs.length > 0 && inputs.every((each) => factsOf(each).optional && factsOf(each).fallback === undefined);

/** The form of one model, and the result of its last run. */
export class Runner {
  constructor(model, server, changed) {
    this._model = model;
    this._server = server;
    this._changed = changed;
    this._leaving = null;
    this._fields = model.inputs.map((tensor) => fieldOf(tensor));
    this._editor = model.inputs.length === 0 && !model.strict ? editor() : null;
    this._examples = model.examples;
    if (this._examples.length) this._fill(this._examples[0]);
    else if (model.texts && takesPromptOnly(model.inputs)) this._fields[0].write(TEXT);
    this._streamed = h("input", { type: "checkbox", id: "as-stream", checked: true, onchange: changed });
    this._run = h("button", { type: "submit", class: "primary" }, icon("play"), "Run");
    this._stop = h("button", { type: "button", class: "stop", hidden: true, onclick: () => this.stop() }, icon("stop"), "Stop");
    this._note = h("p", { class: "note" });
    this._copy = copyButton(() => this._results.text, "this output");
    this._copy.hidden = true;
    this._output = h("div", { class: "result-body" }, h("p", { class: "quiet empty" }, "Run the model to see what it returns."));
    this.element = h("div", { class: "runner" }, this._form(), this._result());
  }

  get streamed() {
    return this._model.streams && (!this._model.predicts || this._streamed.checked);
  }

  _form() {
    const fields = this._editor ? [this._editor.element] : this._fields.map(({ element }) => element);
    const both = this._model.streams && this._model.predicts;
    const choice = both ? h("label", { class: "check" }, this._streamed, "Stream the response") : null;
    return h(
      "form",
      { class: "card", novalidate: true, "aria-label": `Input of ${this._model.name}`, onsubmit: (event) => this._submit(event), oninput: this._changed, onchange: this._changed, onkeydown: (event) => this._key(event) },
      h("div", { class: "card-head" }, h("h2", {}, "Input"), this._choice()),
      fields.length ? fields : h("p", { class: "quiet" }, "This model takes no arguments."),
      choice,
      h("div", { class: "actions" }, this._run, this._stop, h("span", { class: "keys" }, h("kbd", {}, "Ctrl"), " ", h("kbd", {}, "Enter"))),
    );
  }

  /** A button for each example of the docstring. */
  _choice() {
    if (this._examples.length < 2) return null;
    const buttons = this._examples.map((values, index) => h("button", { type: "button", class: "small", onclick: () => (this._fill(values), this._changed()) }, `Example ${index + 1}`));
    return h("span", { class: "chips" }, buttons);
  }

  _fill(values) {
    for (const [name, value] of Object.entries(values)) this.field(name).write(value);
  }

  _result() {
    return h("section", { class: "card result", "aria-label": "Output" }, h("div", { class: "card-head" }, h("h2", {}, "Output"), this._note, this._copy), this._output);
  }

  _key(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this._submit(event);
    if (event.key === "Escape" && this._leaving !== null) this.stop();
  }

  _submit(event) {
    event.preventDefault();
    if (this._leaving === null) this.run();
  }

  /** The call as the form is now; null where a value is wrong. `shows` marks the wrong ones. */
  async call(shows = false) {
    const values = {};
    const files = {};
    let wrong = null;
    if (this._editor) {
      try {
        const body = this._editor.read();
        return { values: body, body, streamed: this.streamed, files };
      } catch (error) {
        if (shows) this._editor.fail(error.message);
        return null;
      }
    }
    for (const field of this._fields) {
      try {
        const value = await field.read();
        if (value !== undefined) values[field.name] = value;
        if (value !== undefined && field.input.fileNames) files[field.name] = field.input.fileNames();
      } catch (error) {
        if (!(error instanceof WrongValue)) throw error;
        const at = error.field ?? field;
        if (shows) at.fail(error.message);
        wrong ??= at;
      }
    }
    if (wrong !== null && shows) wrong.input.focus();
    return wrong === null ? { values, body: bodyOf(this._model, values), streamed: this.streamed, files } : null;
  }

  async run() {
    for (const field of this._fields) field.fail("");
    this._editor?.fail("");
    const call = await this.call(true);
    if (call === null || this._leaving !== null) return;
    const leaving = new AbortController();
    this._leaving = leaving;
    const results = new Results(this._model, call.streamed);
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
      this._copy.hidden = results.text === "";
      this._busy(false);
    }
  }

  stop() {
    this._leaving?.abort();
  }

  /** On a narrow screen the output is below the form, and may be below the screen. */
  _reveal() {
    const card = this._output.parentElement;
    if (card.getBoundingClientRect().top > innerHeight * 0.6) card.scrollIntoView({ block: "start" });
  }

  _busy(busy) {
    const focused = document.activeElement === this._stop || document.activeElement === this._run;
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
    if (field) {
      field.fail(error.message);
      field.input.focus();
    }
    announce(`Failed: ${error.message}`);
  }

  field(name) {
    return this._fields.find((each) => each.name === name);
  }

  /** The field whose control has this name: an input, or a part of one. */
  leaf(path) {
    return this._leaves().find((field) => field.path === path);
  }

  /** The field that an error names: of an input, or of a part of it. */
  _named(message) {
    let field = this.field(NAMED.exec(message)?.[1]);
    for (const part of PART.exec(message)?.[1].split(".") ?? []) field = field?.fields?.find(({ name }) => name === part) ?? field;
    return field;
  }

  /** What is in the form, for the form of the same model after a reload. */
  async kept() {
    const found = new Map();
    for (const field of this._leaves()) {
      const value = await Promise.resolve().then(field.read).catch(() => undefined);
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
}

/** The status and the text of a failed call. */
export function errorBox(error, server) {
  const status = error.status ? `${error.status} ${STATUSES[error.status] ?? ""}`.trim() : error.code ? `Failed: ${error.code}` : "No response";
  const opens = error.status === 401 || error.status === 403;
  if (error.status === 401) server.refuse(error);
  const button = opens ? h("button", { type: "button", class: "small", onclick: () => server.refuse(error) }, icon("key"), "Set a key") : null;
  return h("div", { class: "error", role: "alert" }, h("strong", {}, status), h("p", {}, error.message), button);
}

const STATUSES = {
  400: "Bad Request",
  401: "Unauthorized",
  403: "Forbidden",
  404: "Not Found",
  408: "Request Timeout",
  413: "Content Too Large",
  422: "Unprocessable Content",
  429: "Too Many Requests",
  500: "Internal Server Error",
  501: "Not Implemented",
  503: "Service Unavailable",
  504: "Gateway Timeout",
};

/** The whole V2 request, for a model that declares no inputs. */
function editor() {
  const input = h("textarea", { id: "v2-request", rows: 12, spellcheck: false, class: "code", value: pretty(EXAMPLE) });
  const fault = h("p", { class: "fault", id: "v2-request-fault", role: "alert" });
  input.setAttribute("aria-describedby", fault.id);
  const label = h("label", { for: input.id }, "Request");
  return {
    element: h("div", { class: "field" }, h("div", { class: "label" }, label, h("span", { class: "kind" }, "V2 JSON; this model declares no inputs")), input, fault),
    read: () => JSON.parse(input.value),
    fail(message) {
      fault.textContent = message;
      input.toggleAttribute("aria-invalid", Boolean(message));
    },
  };
}

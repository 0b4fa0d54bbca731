// The options of a chat, as fields of a form: system prompt, sampling, structured output, tools and files.

import { bytesOf, mediaTypeOf } from "./calls.js";
import { h } from "./dom.js";
import { WrongValue, fieldOf } from "./fields.js";

/** The name, label and tensor of each option. */
const OPTIONS = [
  ["system", "System prompt", "BYTES"],
  ["temperature", "Temperature", "FP64", { schema: '{"minimum": 0, "maximum": 2}' }],
  ["max_tokens", "Max tokens", "INT64", { schema: '{"minimum": 1}' }],
  ["seed", "Seed", "INT64"],
  ["stop", "Stop strings", "BYTES", {}, [-1]],
  ["response_format", "Structured output (JSON schema)", "BYTES", { content_type: "json" }],
  ["tools", "Tools (JSON)", "BYTES", { content_type: "json" }],
];
const optionalField = (name, label, datatype, parameters = {}, shape = [1]) => fieldOf({ name: label, datatype, shape, parameters: { optional: true, ...parameters } }, name);
/** Options that a model takes only if it declares an input of this name. */
const DECLARED = new Set(["response_format", "tools"]);

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

/** The fields of the options that a model takes. */
export class ChatOptions {
  /** `before` are the options of an earlier description of the model, whose values are kept. */
  constructor(model, changed, before) {
    const known = new Set(model.inputs.map(({ name }) => name));
    this._fields = OPTIONS.filter(([name]) => !DECLARED.has(name) || known.has(name)).map((option) => optionalField(...option));
    for (const { input } of this._fields) input.addEventListener("change", () => this._read(false));
    for (const { path, input } of this._fields) input.value = before?._fields.find((field) => field.path === path)?.input.value ?? "";
    this.element = h("details", { class: "options", open: before?.element.open, oninput: changed }, h("summary", {}, "Options"), h("div", { class: "option-grid" }, this._fields.map(({ element }) => element)));
  }

  /** The system prompt, and the fields of the request. Null if a value is wrong; `shows` opens and focuses the first such field. */
  read(shows = false) {
    const { wrong, found: { system = "", ...options } } = this._read(!shows);
    if (wrong && shows) {
      this.element.open = true;
      wrong.input.focus();
    }
    return wrong ? null : { system: system.trim(), options };
  }

  /** All values, and the first field whose value is wrong. Unless it is `quiet`, each such field shows its error. */
  _read(quiet) {
    const found = {};
    let wrong = null;
    for (const field of this._fields) {
      try {
        const value = checked(field.path, field.read());
        if (value !== undefined) found[field.path] = value;
      } catch (error) {
        if (!(error instanceof WrongValue)) throw error;
        if (!quiet) field.fail(error.message);
        wrong ??= field;
      }
    }
    return { wrong, found };
  }
}

function checked(name, value) {
  if (value === undefined) return undefined;
  if (name === "tools" && !(Array.isArray(value) && value.every(isObject))) throw new WrongValue("Tools must be a list of objects.");
  if (name !== "response_format") return value;
  if (!isObject(value)) throw new WrongValue("A JSON schema must be an object.");
  return { type: "json_schema", json_schema: { name: "response", schema: value } };
}

const MEDIA = { images: "Images", audio: "Audio" };

/** The files of the next message, for each of the inputs `images` and `audio` that the model declares. */
export class ChatFiles {
  constructor(model, changed, before) {
    /** The names of all files that were sent, by their base64, for the code. */
    this.names = before?.names ?? new Map();
    this._kinds = Object.keys(MEDIA).filter((kind) => model.inputs.some(({ name }) => name === kind));
    this.element = h("div", { class: "chat-files", hidden: this._kinds.length === 0, onchange: changed });
    this.clear();
  }

  clear() {
    this._fields = this._kinds.map((kind) => optionalField(kind, MEDIA[kind], "BYTES", { content_type: "base64" }, [-1]));
    this.element.replaceChildren(...this._fields.map(({ element }) => element));
  }

  /** The files as OpenAI content parts. */
  async parts() {
    const found = [];
    for (const field of this._fields) {
      const names = field.input.fileNames;
      for (const [index, data] of ((await field.read()) ?? []).entries()) {
        this.names.set(data, names()[index]);
        const type = mediaTypeOf(bytesOf(data.slice(0, 24)));
        found.push(field.path === "images" ? { type: "image_url", image_url: { url: `data:${type};base64,${data}` } } : { type: "input_audio", input_audio: { data, format: type.split("/")[1].replace("mpeg", "mp3") } });
      }
    }
    return found;
  }
}

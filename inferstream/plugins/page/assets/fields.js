// The fields of a form, one for each input of a model, as its metadata describe it.

import { h, newId } from "./dom.js";
import { groupOf, objectOf } from "./groups.js";
import { contentOf, isDocument, isSingle } from "./server.js";

const INTEGER = /^U?INT/;
const NUMBER = /^(U?INT|FP|BF)/;
const PICTURE = /image|img|photo|picture|frame/i;
const SOUND = /audio|sound|speech|voice|wav/i;

/** Parameters that hold JSON. */
const FACTS = ["choices", "schema", "dimensions", "examples", "columns"];
const WORDS = ["one", "two words", "three"];
const TIMES = { date: "2000-01-01", time: "12:00:00" };

/** An example of a prompt. */
export const TEXT = "Once upon a time there was a server.";

/** A value that cannot be sent, and its field. The form shows the message. */
export class WrongValue extends Error {}

/** The field of an input. `read()` returns its value, or undefined if the input is left out. */
export function fieldOf(tensor, path = tensor.name) {
  const facts = factsOf(tensor);
  const object = isDocument(tensor) && contentOf(tensor) === "json" ? objectOf(facts, tensor.opened) : null;
  if (object !== null) return groupOf(tensor, facts, object, path);
  const control = controlOf(tensor, facts);
  const { input } = control;
  input.id = newId("field");
  input.name = path;
  input.required = !facts.optional && control.shows !== "state";
  const help = h("p", { class: "help", id: `${input.id}-help` }, facts.description || null);
  const fault = h("p", { class: "fault", id: `${input.id}-fault`, role: "alert" });
  input.setAttribute("aria-describedby", `${help.id} ${fault.id}`);
  const hint = h("span", { class: "kind" }, control.kind ?? kindOf(tensor));
  const mark = facts.optional ? "optional" : tensor.opened ? "required" : null;
  const label = h("label", { for: input.id }, tensor.name);
  const notes = [hint, mark && control.shows !== "state" ? h("span", { class: "optional" }, mark) : null];
  const row = input.type === "checkbox" ? [input, label, notes] : [label, notes];
  const body = input.type === "checkbox" ? null : (control.element ?? input);
  const element = h("div", { class: "field" }, h("div", { class: "label" }, row), body, help, fault);
  const field = {
    tensor,
    name: tensor.name,
    path,
    element,
    input,
    leaves: () => [field],
    read() {
      try {
        return control.read();
      } catch (error) {
        throw Object.assign(error, { field });
      }
    },
    write: control.write,
    fail(message) {
      fault.textContent = message;
      input.ariaInvalid = message ? "true" : null;
    },
  };
  for (const kind of ["input", "change"]) input.addEventListener(kind, () => field.fail(""));
  return field;
}

/** The parameters of a tensor, with their JSON parsed. */
export function factsOf(tensor) {
  const said = tensor.parameters ?? {};
  const facts = Object.fromEntries(FACTS.map((name) => [name, parsed(said[name])]));
  const description = typeof said.description === "string" ? said.description : "";
  const optional = Boolean(said.optional || said.stream);
  return { ...facts, schema: facts.schema ?? {}, fallback: parsed(said.default), format: said.format, description, optional };
}

/** The value of a JSON text; undefined for anything else. */
export function parsed(text) {
  try {
    return typeof text === "string" ? JSON.parse(text) : undefined;
  } catch {
    return undefined;
  }
}

/** A word for the type of a tensor. */
export function kindOf(tensor) {
  const content = contentOf(tensor);
  const { choices, dimensions, format } = factsOf(tensor);
  if (choices && isSingle(tensor)) return "choice";
  if (content === "pd_json") return "table";
  if (content === "json") return "JSON";
  const word = wordOf(tensor.datatype, content, format);
  if (isSingle(tensor)) return word;
  if (tensor.shape.length === 1 && !dimensions) return `list of ${word}s`;
  const sizes = dimensions ?? tensor.shape.map((size) => (size === -1 ? "any" : size));
  return `${tensor.datatype} ${sizes.join(" × ")}`;
}

/** A word for the type of one value. */
export function wordOf(datatype, content, format) {
  if (content === "image") return "image";
  if (content === "base64") return "file";
  if (content === "datetime") return format ?? "date and time";
  if (datatype === "BYTES") return "text";
  if (datatype === "BOOL") return "yes or no";
  return INTEGER.test(datatype) ? "integer" : "number";
}

function controlOf(tensor, facts) {
  const content = contentOf(tensor);
  if (tensor.parameters?.stream) return fed(tensor);
  if (facts.choices && isSingle(tensor)) return choice(facts);
  if (isDocument(tensor)) return jsonText(facts, exampleOf(facts.schema, facts.schema) ?? {});
  if (content === "image" || content === "base64") return file(tensor, facts);
  if (!isSingle(tensor)) {
    const example = exampleArray(tensor, facts);
    return tensor.datatype === "BYTES" && tensor.shape.length === 1 ? lines(facts, example) : jsonText(facts, example);
  }
  if (content === "datetime") return time(facts);
  if (tensor.datatype === "BOOL") return check(facts);
  return NUMBER.test(tensor.datatype) ? number(tensor, facts) : text(facts, tensor.name);
}

/** A control whose text `parse` reads. An empty one is left out if the input is optional. */
function typed(input, { optional }, parse, write = (value) => (input.value = value ?? "")) {
  return { input, write, read: () => (optional && input.value === "" && !input.validity.badInput ? undefined : parse(input.value)) };
}

function text(facts, name) {
  const input = h("textarea", { rows: 3, placeholder: shown(facts.fallback), spellcheck: false, class: "prose" });
  const example = facts.schema.examples?.[0] ?? (/system/i.test(name) ? "" : TEXT);
  if (!facts.optional && !facts.fallback) input.value = example;
  return typed(input, facts, (text) => text);
}

function number(tensor, facts) {
  const { fallback, schema, optional } = facts;
  const whole = INTEGER.test(tensor.datatype);
  const low = schema.minimum ?? (whole && schema.exclusiveMinimum !== undefined ? schema.exclusiveMinimum + 1 : undefined);
  const high = schema.maximum ?? (whole && schema.exclusiveMaximum !== undefined ? schema.exclusiveMaximum - 1 : undefined);
  const { exclusiveMinimum: above, exclusiveMaximum: below } = schema;
  const least = low ?? (above === undefined ? -Infinity : (above + (high ?? below ?? above + 2)) / 2);
  const most = high ?? (below === undefined ? 1 : below - 1);
  const input = h("input", {
    type: "number",
    step: whole ? 1 : "any",
    min: low ?? (tensor.datatype.startsWith("U") ? 0 : undefined),
    max: high,
    placeholder: shown(fallback),
  });
  if (!optional) input.value = String(schema.examples?.[0] ?? Math.max(least, Math.min(1, most)));
  return typed(input, facts, (text) => {
    if (input.validity.badInput) throw new WrongValue("This is not a number.");
    if (text === "") throw new WrongValue("Enter a number.");
    if (!input.validity.valid) throw new WrongValue(input.validationMessage);
    if (whole && !Number.isSafeInteger(Number(text))) throw new WrongValue("Browsers do not keep integers of this size exactly.");
    return Number(text);
  });
}

function check({ fallback, optional }) {
  const input = h("input", { type: "checkbox", checked: Boolean(fallback) });
  const read = () => (optional && input.checked === Boolean(fallback) ? undefined : input.checked);
  return { input, read, write: (value) => (input.checked = value ?? Boolean(fallback)), shows: "state" };
}

function choice({ choices: declared, fallback, optional }) {
  const choices = optional && fallback === undefined ? [undefined, ...declared] : declared;
  const options = choices.map((each, index) => h("option", { value: index }, each === undefined ? "left out" : shown(each)));
  const input = h("select", {}, options);
  const usual = Math.max(0, choices.findIndex((each) => each === fallback));
  input.value = String(usual);
  const read = () => {
    const found = choices[Number(input.value)];
    return optional && found === fallback ? undefined : found;
  };
  const write = (value) => (input.value = String(value === undefined ? usual : Math.max(0, choices.indexOf(value))));
  return { input, read, write, shows: "state" };
}

function time(facts) {
  const { fallback, format, optional } = facts;
  const type = { date: "date", time: "time" }[format] ?? "datetime-local";
  const input = h("input", { type, step: type === "date" ? undefined : 1 });
  if (fallback || !optional) input.value = fallback || timeOf(format);
  return typed(input, facts, (text) => {
    if (text === "") throw new WrongValue("Enter a value.");
    return text;
  });
}

/** Strings, one in each line. */
function lines(facts, example) {
  const { fallback, optional } = facts;
  const input = h("textarea", { rows: 3, spellcheck: false, class: "prose", placeholder: "One in each line" });
  if (!optional) input.value = example.join("\n");
  else if (Array.isArray(fallback)) input.placeholder = fallback.join("\n");
  const parse = (text) => text.split("\n").filter((line) => line !== "");
  return { ...typed(input, facts, parse, (value) => (input.value = (value ?? []).join("\n"))), kind: "texts, one in each line" };
}

/** The values of an input that is a stream, one in each line. Values that are not strings are JSON. */
function fed(tensor) {
  const texts = tensor.datatype === "BYTES" && ["", "str"].includes(contentOf(tensor));
  const input = h("textarea", { rows: 4, spellcheck: false, class: "code", value: texts ? "one\ntwo\nthree" : "1\n2\n3" });
  const read = () => {
    const found = input.value.split("\n").filter((line) => line.trim() !== "");
    if (found.length === 0) throw new WrongValue("Enter a value.");
    return texts ? found : found.map((line) => parseJson(line, "A line"));
  };
  const write = (value) => (input.value = value.map((each) => (texts ? each : JSON.stringify(each))).join("\n"));
  return { input, read, write, kind: `${kindOf(tensor)}s, sent one after another`, shows: "state" };
}

function parseJson(text, what) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new WrongValue(`${what} is not JSON: ${error.message}`);
  }
}

/** A JSON value, with an example. */
function jsonText(facts, example) {
  const size = JSON.stringify(example).length > 60 || typeof example === "object" ? 5 : 2;
  const input = h("textarea", { rows: size, spellcheck: false, class: "code", placeholder: shown(facts.fallback) });
  if (!facts.optional) input.value = pretty(example);
  const parse = (text) => (facts.optional && !text.trim() ? undefined : parseJson(text, "This"));
  return typed(input, facts, parse, (value) => (input.value = value === undefined ? "" : pretty(value)));
}

/** Files, which are sent as base64. */
function file(tensor, { optional }) {
  const content = contentOf(tensor);
  const single = isSingle(tensor);
  const accept = content === "image" || PICTURE.test(tensor.name) ? "image/*" : SOUND.test(tensor.name) ? "audio/*" : undefined;
  const input = h("input", { type: "file", accept, multiple: !single });
  const preview = h("div", { class: "preview" });
  let reading = [];
  input.addEventListener("change", () => {
    reading = [...input.files].map(base64Of);
    preview.replaceChildren(...[...input.files].map(previewOf));
  });
  input.fileNames = () => [...input.files].map(({ name }) => name);
  const read = async () => {
    const texts = await Promise.all(reading);
    if (texts.includes(null)) throw new WrongValue("The file cannot be read. It may have changed; choose it again.");
    if (texts.length === 0 && !optional) throw new WrongValue("Choose a file.");
    return texts.length === 0 ? undefined : single ? texts[0] : texts;
  };
  return { input, element: h("div", { class: "file" }, input, preview), read, write: () => {} };
}

function previewOf(found) {
  if (!found.type.startsWith("image/")) return h("span", { class: "chip" }, `${found.name}, ${sizeOf(found.size)}`);
  const source = URL.createObjectURL(found);
  return h("img", { src: source, alt: found.name, onload: () => URL.revokeObjectURL(source) });
}

export function sizeOf(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  return bytes < 1048576 ? `${(bytes / 1024).toFixed(1)} KB` : `${(bytes / 1048576).toFixed(1)} MB`;
}

/** The content of a file; null if it cannot be read. */
function base64Of(found) {
  return new Promise((resolve) => {
    const reader = new FileReader();
    reader.onloadend = () => resolve(reader.result && reader.result.slice(reader.result.indexOf(",") + 1));
    reader.readAsDataURL(found);
  });
}

/** The default of an argument, as a placeholder. */
function shown(value) {
  if (value === undefined || value === null) return value === null ? "none" : undefined;
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** JSON in which short lists stay on one line. */
export function pretty(value) {
  const text = JSON.stringify(value, null, 2) ?? "";
  return text.replace(/\[\s+([^[\]{}]*?)\s+\]/g, (whole, inner) => {
    const line = `[${inner.replace(/\s*\n\s*/g, " ")}]`;
    return line.length <= 72 ? line : whole;
  });
}

export const timeOf = (format) => TIMES[format] ?? "2000-01-01T00:00:00";

/** Nested lists in the shape of a tensor. Free sizes are small, and the same for all columns of a table. */
function exampleArray(tensor, { choices, format }) {
  const { shape, datatype } = tensor;
  const sizes = shape.map((size, index) => (size === -1 ? (index === shape.length - 1 ? 3 : 1) : size));
  let count = 0;
  const whole = INTEGER.test(datatype);
  const words = contentOf(tensor) === "datetime" ? [timeOf(format)] : WORDS;
  const known = choices ?? (datatype === "BYTES" ? words : null);
  const number = (place) => (whole ? place : Number((place * 0.5).toFixed(1)));
  const next = () => (datatype === "BOOL" ? true : known ? known[count++ % known.length] : number(++count));
  const build = ([size, ...rest]) => (size === undefined ? next() : Array.from({ length: size }, () => build(rest)));
  return sizes.reduce((product, size) => product * size, 1) > 4096 ? [] : build(sizes);
}

/** A small value that a JSON schema allows, with the keys that are required or have a default. */
export function exampleOf(schema, root, depth = 0) {
  if (depth > 6) return null; // a schema may contain itself
  const found = schema.$ref ? (root.$defs?.[schema.$ref.split("/").at(-1)] ?? {}) : schema;
  if (found.default !== undefined) return found.default;
  if (found.const !== undefined) return found.const;
  if (found.examples?.length) return found.examples[0];
  if (found.enum?.length) return found.enum[0];
  const options = found.anyOf ?? found.oneOf;
  if (options) return exampleOf(options[0], root, depth + 1);
  if (found.type === "array") return found.items && found !== root ? [exampleOf(found.items, root, depth + 1)] : [];
  if (found.type === "object" || found.properties) {
    const properties = Object.entries(found.properties ?? {});
    const shown = properties.filter(([name, each]) => found.required?.includes(name) || each.default !== undefined);
    return Object.fromEntries(shown.map(([name, each]) => [name, exampleOf(each, root, depth + 1)]));
  }
  return { string: "text", integer: 1, number: 1, boolean: true, null: null }[found.type];
}

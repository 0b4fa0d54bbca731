// The group of an argument that is an object: one field for each of its properties, by its JSON schema.

import { h, newId } from "./dom.js";
import { fieldOf } from "./fields.js";

const DATATYPES = { boolean: "BOOL", integer: "INT64", number: "FP64", string: "BYTES" };
const TIMES = new Set(["date", "date-time", "time"]);

/** The schema of an object whose properties are all named. Others, and objects inside themselves, return null and stay JSON. */
export function objectOf({ schema, optional, fallback }, opened = []) {
  const object = optional && (fallback ?? null) === null ? (given(schema, schema) ?? schema) : resolved(schema, schema);
  const named = Object.keys(object.properties ?? {}).length > 0 && !object.additionalProperties;
  return named && !opened.includes(object.title) ? { ...object, $defs: schema.$defs } : null;
}

/** The field of an object. If it is optional and has no default, a check box adds it to the call. */
export function groupOf(tensor, facts, object, path) {
  const usual = facts.fallback ?? undefined;
  const opened = [...(tensor.opened ?? []), object.title];
  const fields = Object.entries(object.properties).map(([name, schema]) => {
    const declared = usual === undefined ? schema : { ...schema, default: usual[name] };
    return fieldOf(property(name, declared, object, usual !== undefined, opened), `${path}.${name}`);
  });
  const id = newId("field");
  const box = facts.optional && usual === undefined ? boxOf(id, path, fields) : null;
  const help = h("p", { class: "help" }, facts.description || object.description || null);
  const fault = h("p", { class: "fault", role: "alert" });
  const kind = h("span", { class: "kind" }, object.title ?? "object");
  const legend = h("legend", { class: "label" }, box?.input, box ? h("label", { for: id }, tensor.name) : h("b", {}, tensor.name), kind);
  const optional = facts.optional ? h("span", { class: "optional" }, "optional") : null;
  if (optional) legend.append(optional);
  const group = {
    tensor,
    name: tensor.name,
    path,
    fields,
    input: box?.input ?? fields[0].input,
    element: h("fieldset", { class: "field group" }, legend, help, fields.map(({ element }) => element), fault),
    leaves: () => [...(box ? [box] : []), ...fields.flatMap((field) => field.leaves())],
    read() {
      if (box && !box.read()) return undefined;
      const given = fields.map((field) => [field.name, field.read()]).filter(([, value]) => value !== undefined);
      return given.length === 0 && facts.optional && !box ? undefined : { ...usual, ...Object.fromEntries(given) };
    },
    write(value) {
      box?.write(value !== undefined && value !== null);
      for (const field of fields) field.write(value?.[field.name]);
    },
    fail(message) {
      fault.textContent = message;
      if (!message) for (const field of fields) field.fail("");
    },
  };
  const [example] = object.examples ?? [];
  if (example && !facts.optional) group.write(example);
  return group;
}

/** The check box of a group. It is a field, so that its value is kept after a reload. */
function boxOf(id, path, fields) {
  const input = h("input", { type: "checkbox", id, name: path, onchange: () => show() });
  const show = () => fields.forEach(({ element }) => (element.hidden = !input.checked));
  show();
  return {
    path,
    tensor: { datatype: "BOOL" },
    read: () => input.checked,
    write(value) {
      input.checked = value;
      show();
    },
    input,
  };
}

/** A property as a tensor is declared, so that it has the field of an argument of its type. */
function property(name, declared, object, optional, opened) {
  let schema = resolved(declared, object);
  const free = optional || !object.required?.includes(name);
  // A null default means that the property is absent. If null is not the default, the user enters it as JSON.
  const none = free && schema.default === null;
  if (none) schema = { ...(given(schema, object) ?? schema), default: null };
  const datatype = DATATYPES[schema.type];
  if (datatype === "BYTES") schema.examples ??= ["text"];
  const said = { description: schema.description, optional: free, schema: JSON.stringify({ ...schema, $defs: object.$defs }) };
  if (schema.default !== undefined) said.default = JSON.stringify(schema.default);
  const choices = choicesOf(schema, free);
  if (choices) said.choices = JSON.stringify(none ? [null, ...choices] : choices);
  else if (TIMES.has(schema.format)) Object.assign(said, { content_type: "datetime", format: schema.format.replace("-", "") });
  else if (datatype === undefined) said.content_type = "json";
  return { name, datatype: datatype ?? "BYTES", shape: [1], parameters: said, opened };
}

/** The choices of a property. An unchecked box would not distinguish `false` from a missing value. */
function choicesOf(schema, free) {
  if (schema.const !== undefined) return [schema.const];
  return schema.type === "boolean" && free && typeof schema.default !== "boolean" ? [true, false] : schema.enum;
}

/** The one schema that a schema allows next to null; undefined if it has none. */
function given(schema, root) {
  const others = (schema.anyOf ?? []).filter(({ type }) => type !== "null");
  return others.length === 1 ? { ...resolved(others[0], root), ...schema, anyOf: undefined } : undefined;
}

/** A schema with its reference resolved. Keys next to the reference take precedence. */
function resolved(schema, root) {
  const named = root.$defs?.[schema.$ref?.split("/").at(-1)];
  return named ? { ...named, ...schema, $ref: undefined } : schema;
}

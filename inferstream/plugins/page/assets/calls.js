// Calls of a model: requests from the values of a form, and the outputs of responses.

import { parsed } from "./fields.js";
import { InferstreamError, ROOT, contentOf, isDocument, pathOf } from "./server.js";

const RESERVED = new Set(["model_name", "model_version", "id"]);

/** The body of a call: arguments by name, or a V2 request for a model that takes tensors. */
export function bodyOf(model, values) {
  if (model.inputs.length === 0) return values; // the form has one field for the whole request
  if (model.feeds) return { ...values, [model.feeds.name]: values[model.feeds.name]?.[0] };
  if (model.flat) return values;
  const given = model.inputs.filter(({ name }) => values[name] !== undefined);
  return { inputs: given.map((tensor) => tensorOf(tensor, values[tensor.name])) };
}

/** The class names of an output, in the order of its scores; undefined if it has none. */
export function classesOf(tensor, model) {
  const declared = model.outputs.find(({ name }) => name === tensor.name);
  return parsed(tensor.parameters?.classes ?? declared?.parameters?.classes);
}

/** A V2 tensor with this value, which is a single one, nested lists, or any JSON. */
export function tensorOf(tensor, value) {
  const element = isDocument(tensor) ? JSON.stringify(value) : value;
  const shape = shapeOf(element);
  const data = [element].flat(Infinity);
  const declared = tensor.shape.map((size) => (size === -1 ? 1 : size));
  const fits = shape.length === 0 || (data.length === 1 && shape.length !== declared.length);
  return { name: tensor.name, shape: fits ? declared : shape, datatype: tensor.datatype, data };
}

/** The shape of nested lists; empty for a single value. */
export function shapeOf(value) {
  const shape = [];
  for (let inner = value; Array.isArray(inner); inner = inner[0]) shape.push(inner.length);
  return shape;
}

/** Send a call, and yield its one response, or the responses of its stream. */
export async function* responses(server, model, { values, body, streamed }, signal) {
  const options = { version: model.version || undefined, signal };
  if (model.feeds) {
    yield* fed(server, model, values, signal);
  } else if (streamed) {
    for await (const { data, event } of server.client.stream(model.name, body, options)) yield { data, event };
  } else if (isV2(body)) {
    yield { data: await server.client.infer(model.name, body, options) };
  } else {
    yield { data: await server.client.generate(model.name, body, options) };
  }
}

/** The responses to a call that sends a stream of values, each in a request over a WebSocket. */
async function* fed(server, model, values, signal) {
  const { [model.feeds.name]: stream, ...others } = values;
  const inputsOf = (given) => model.inputs.filter(({ name }) => given[name] !== undefined).map((tensor) => tensorOf(tensor, given[tensor.name]));
  const requests = stream.map((value, index) => ({
    id: "1",
    part: index === 0 ? "first" : "next",
    inputs: inputsOf(index === 0 ? { ...others, [model.feeds.name]: value } : { [model.feeds.name]: value }),
  }));
  const socket = server.socket(`${ROOT}${pathOf(model.name, model.version)}/stream`);
  const events = [];
  let wake = () => {};
  const put = (event) => (events.push(event), wake());
  const leave = () => put({ failure: signal.reason });
  signal.addEventListener("abort", leave);
  socket.onopen = () => [...requests, { id: "1", part: "last" }].forEach((each) => socket.send(JSON.stringify(each)));
  socket.onmessage = ({ data }) => put({ data: JSON.parse(data) });
  socket.onclose = ({ code, reason }) => put({ failure: new InferstreamError(`The connection was closed: ${code} ${reason}`) });
  try {
    for (;;) {
      while (events.length === 0) await new Promise((resolve) => (wake = resolve));
      const { data, failure } = events.shift();
      if (failure) throw failure;
      if (data.error) throw new InferstreamError(data.error, { status: 0, code: data.code });
      if (data.outputs?.length) yield { data };
      if (data.parameters?.triton_final_response) return;
    }
  } finally {
    signal.removeEventListener("abort", leave);
    socket.onclose = null;
    socket.close();
  }
}

export function isV2(body) {
  const tensors = body?.inputs;
  return Array.isArray(tensors) && tensors.every((each) => each?.name !== undefined && each?.datatype !== undefined);
}

/** The outputs of a response: name, kind (text, file, table, JSON, values), value. */
export function outputsOf(data, model) {
  if (data === null || typeof data !== "object") return [{ name: "output", kind: "JSON", value: data }];
  if (Array.isArray(data.outputs) && data.outputs.every((each) => each?.datatype !== undefined)) {
    return data.outputs.map((tensor) => ofTensor(tensor, model));
  }
  const declared = new Map(model.outputs.map((tensor) => [tensor.name, tensor]));
  let names = Object.keys(data).filter((name) => declared.has(name));
  if (names.length === 0) names = Object.keys(data).filter((name) => !RESERVED.has(name));
  return names.map((name) => ofValue(name, data[name], declared.get(name)));
}

function ofTensor(tensor, model) {
  const { name, datatype, shape, data } = tensor;
  const declared = model.outputs.find((output) => output.name === name);
  const described = { parameters: { ...declared?.parameters, ...tensor.parameters } };
  const { media_type: type } = described.parameters;
  if (type) return { name, kind: "file", value: data[0], type };
  const classes = classesOf(tensor, model);
  if (classes?.length > 1) return { name, kind: "classes", value: data, classes, labels: shape.length < 2 || shape.at(-1) !== classes.length };
  if (datatype !== "BYTES") return { name, kind: "values", value: nested(data, shape) };
  if (data.length !== 1) return { name, kind: "values", value: data };
  return ofValue(name, isDocument(described) ? (parsed(data[0]) ?? data[0]) : data[0], described);
}

function ofValue(name, value, declared) {
  if (typeof value?.media_type === "string") return { name, kind: "file", value: value.data, type: value.media_type };
  const content = declared ? contentOf(declared) : "";
  if (content === "image" || content === "base64") {
    return Array.isArray(value) ? { name, kind: "files", value } : { name, kind: "file", value };
  }
  if (typeof value === "string") return { name, kind: "text", value };
  if (content === "pd_json" || isRows(value)) return { name, kind: "table", value };
  if (content === "json" || (value !== null && typeof value === "object" && !Array.isArray(value))) {
    return { name, kind: "JSON", value };
  }
  return { name, kind: "values", value };
}

const isRows = (value) =>
  Array.isArray(value) && value.length > 0 && value.every((row) => row && typeof row === "object" && !Array.isArray(row));

/** Flat values as nested lists of a shape; a single value as it is. */
export function nested(values, shape) {
  const flat = values.flat(Infinity);
  if (flat.length === 1) return flat[0];
  let rows = flat;
  for (const size of shape.slice(1).reverse()) {
    if (size < 1) return flat;
    rows = Array.from({ length: rows.length / size }, (_, index) => rows.slice(index * size, (index + 1) * size));
  }
  return rows;
}

export function bytesOf(text) {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

const MAGIC = [
  ["image/png", [0x89, 0x50, 0x4e, 0x47]],
  ["image/jpeg", [0xff, 0xd8, 0xff]],
  ["image/gif", [0x47, 0x49, 0x46, 0x38]],
  ["audio/ogg", [0x4f, 0x67, 0x67, 0x53]],
  ["audio/mpeg", [0x49, 0x44, 0x33]],
  ["audio/mpeg", [0xff, 0xfb]],
  ["audio/flac", [0x66, 0x4c, 0x61, 0x43]],
];

/** The media type of a file, by its first bytes. */
export function mediaTypeOf(bytes) {
  const found = MAGIC.find(([, magic]) => magic.every((byte, index) => bytes[index] === byte));
  if (found) return found[0];
  const riff = String.fromCharCode(...bytes.subarray(0, 12));
  if (riff.startsWith("RIFF")) return { WEBP: "image/webp", WAVE: "audio/wav" }[riff.slice(8)] ?? "application/octet-stream";
  return "application/octet-stream";
}

// The call of a form as code: curl, Python with three clients, and JavaScript.

import { copyButton, h, scrollText, tabs } from "./dom.js";
import { isV2, tensorOf } from "./calls.js";
import { pretty } from "./fields.js";
import { ROOT, contentOf, isDocument, isSingle, pathOf } from "./server.js";

const KEY = "YOUR_KEY";
const KEYWORDS = new Set(
  "False None True and as assert async await break class continue def del elif else except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield".split(" "),
);
const TAKEN = new Set(["model", "self", "version", "timeout", "headers", "parameters"]);
const NUMPY = { BOOL: "bool", FP16: "float16", FP32: "float32", FP64: "float64", BYTES: "object" };
const MOST_SHOWN = 2000;
const JAVASCRIPT = 'import { Client } from "inferstream"; // in a page of this server: from "/inferstream.js"';

/**
 * The code of one call, as [key, title, text].
 *
 * `call` is {values, body, streamed, files}: the values by name, the body of the request, and the names of files by
 * argument. For a chat, it is {messages, options, names}, with the names of files by their base64.
 */
function snippetsOf(model, call, key) {
  if (call.messages) {
    return [
      ["curl", "curl", curlOf("/v1/chat/completions", { model: model.name, messages: call.messages, stream: true, ...call.options }, true, key, {}, call.names)],
      ["openai", "Python: openai", openaiOf(model, call, key)],
      ["javascript", "JavaScript", chatJavaScriptOf(model, call, key)],
    ];
  }
  // Only the inferstream client sends a stream of values over HTTP.
  if (model.feeds) return [["python", "Python", pythonOf(model, call, key)]];
  const flat = !isV2(call.body);
  const action = call.streamed ? (flat ? "generate_stream" : "infer_stream") : flat ? "generate" : "infer";
  const found = [
    ["curl", "curl", curlOf(`${pathOf(model.name, model.version)}/${action}`, call.body, call.streamed, key, call.files)],
    ["python", "Python", pythonOf(model, call, key)],
  ];
  const prompt = promptOf(model, call.values);
  if (model.texts && prompt !== null && !model.version) {
    const chat = { ...call, messages: [{ role: "user", content: prompt }] };
    found.push(["openai", "Python: openai", openaiOf(model, chat, key)]);
  }
  found.push(["triton", "Python: tritonclient", call.streamed ? tritonStreamOf(model, call, key) : tritonOf(model, call, key)]);
  found.push(["javascript", "JavaScript", javaScriptOf(model, call, key)]);
  return found;
}

function promptOf(model, values) {
  const text = model.inputs.find((tensor) => tensor.datatype === "BYTES" && ["", "str"].includes(contentOf(tensor)));
  const value = text === undefined ? undefined : values[text.name];
  return typeof value === "string" ? value : null;
}

export const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

function curlOf(path, body, streamed, key, files = {}, sent = new Map()) {
  const lines = [`curl ${streamed ? "-N " : ""}${quoted(ROOT + path)}`, `-H 'content-type: application/json'`];
  if (key) lines.push(`-H ${quoted(`${key.header}: ${secretless(key)}`)}`);
  const names = Object.values(files).flat();
  const read = (name) => `'"$(base64 < ${quoted(name)} | tr -d '\\n')"'`;
  const text = quoted(JSON.stringify(marked(body, files)));
  let data = withFiles(text, sent, (name) => `${read(name)}"`);
  if (names.length === 0 && data === text) return [...lines, `-d ${text}`].join(" \\\n  ");
  // The shell reads the files, because their base64 is too long for the screen and for an argument of a command.
  for (const [index, name] of names.entries()) data = data.replace(JSON.stringify(markOf(index)), () => `"${read(name)}"`);
  return `printf '%s' ${data} | ${[...lines, "-d @-"].join(" \\\n  ")}`;
}

/** The code of a call that reads the files of a chat, in place of their base64. */
function withFiles(text, names, write) {
  for (const [base64, name] of names) {
    for (const before of ["base64,", '"data":"', '"data": "']) text = text.replaceAll(`${before}${base64}"`, () => `${before}${write(name)}`);
  }
  return text;
}

const markOf = (index) => `file-${index}-of-this-call`;

/** The body with a mark in place of each file. */
function marked(body, files) {
  const found = structuredClone(body);
  let index = 0;
  for (const [name, names] of Object.entries(files)) {
    const marks = names.map(() => markOf(index++));
    if (isV2(found)) found.inputs.find((tensor) => tensor.name === name).data = marks;
    else found[name] = Array.isArray(found[name]) ? marks : marks[0];
  }
  return found;
}

const secretless = ({ value }) => (/^bearer /i.test(value) ? `Bearer ${KEY}` : KEY);

/** The header of the key as an object of JavaScript or Python, without the secret. */
const headersOf = (key, name = key.header) => `{${JSON.stringify(name)}: "${secretless(key)}"}`;

const readBytes = (file) => `Path(${JSON.stringify(file)}).read_bytes()`;

/** A JSON value as Python code. */
export function pythonValue(value) {
  if (value === null || value === undefined) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (typeof value === "number") return Number.isFinite(value) ? String(value) : `float("${value}")`;
  if (typeof value === "string") return JSON.stringify(value).replaceAll("\u007f", "\\x7f");
  if (Array.isArray(value)) return `[${value.map(pythonValue).join(", ")}]`;
  return `{${Object.entries(value).map(([name, each]) => `${JSON.stringify(name)}: ${pythonValue(each)}`).join(", ")}}`;
}

function pythonOf(model, call, key) {
  const imports = new Set();
  const named = argumentsOf(model, call).map(([name, tensor, value]) => [name, pythonArgument(tensor, value, call.files?.[name], imports)]);
  const plain = named.every(([name]) => /^[A-Za-z_]\w*$/.test(name) && !KEYWORDS.has(name) && !TAKEN.has(name));
  const mapping = named.length ? `{${named.map(([name, text]) => `${JSON.stringify(name)}: ${text}`).join(", ")}}` : "";
  const given = [JSON.stringify(model.name), ...(plain ? named.map(([name, text]) => `${name}=${text}`) : [mapping])].filter(Boolean);
  if (model.version) given.push(`version=${JSON.stringify(model.version)}`);
  if (call.outputs) given.push(`outputs=${pythonValue(call.outputs)}`);
  const options = key ? `, headers=${headersOf(key)}` : "";
  const lines = call.streamed
    ? [`    for item in client.stream(${given.join(", ")}):`, `        print(item${model.texts ? ', end="", flush=True' : ""})`]
    : [`    print(client.predict(${given.join(", ")}))`];
  const head = [...[...imports].sort(), imports.size ? "" : null, "from inferstream import Client", ""].filter((line) => line !== null);
  return [...head, `with Client("${ROOT}"${options}) as client:`, ...lines].join("\n");
}

/** Name, tensor and value of each argument that the call has. */
function argumentsOf(model, { values, body }) {
  if (model.inputs.length > 0) {
    return model.inputs.filter(({ name }) => values[name] !== undefined).map((tensor) => [tensor.name, tensor, values[tensor.name]]);
  }
  if (isV2(body)) return body.inputs.map((tensor) => [tensor.name, tensor, tensor.data]);
  return Object.entries(body ?? {}).map(([name, value]) => [name, guessed(name, value), value]);
}

function guessed(name, value) {
  const [first] = [value].flat(Infinity);
  const datatype = { boolean: "BOOL", number: Number.isInteger(first) ? "INT64" : "FP64" }[typeof first] ?? "BYTES";
  return { name, datatype, shape: [Array.isArray(value) ? value.length : 1] };
}

function pythonArgument(tensor, value, files, imports) {
  const content = contentOf(tensor);
  if (files?.length) {
    imports.add("from pathlib import Path");
    return isSingle(tensor) ? readBytes(files[0]) : `[${files.map(readBytes).join(", ")}]`;
  }
  if (content === "datetime" && typeof value === "string") {
    const kind = tensor.parameters.format ?? "datetime";
    imports.add(`from datetime import ${kind}`);
    return `${kind}.fromisoformat(${JSON.stringify(value)})`;
  }
  if (tensor.parameters?.stream) return pythonValue(value);
  const declared = tensor.data === undefined;
  if (declared && (isDocument(tensor) || isSingle(tensor))) {
    if (content !== "pd_json") return pythonValue(value);
    imports.add("import pandas as pd");
    return `pd.DataFrame(${pythonValue(value)})`;
  }
  if (tensor.datatype === "BYTES" || (declared && tensor.shape.length === 1 && content !== "np")) return pythonValue(value);
  return numpyOf(tensor, value, imports);
}

function numpyOf(tensor, value, imports) {
  imports.add("import numpy as np");
  const dtype = NUMPY[tensor.datatype] ?? tensor.datatype.toLowerCase();
  const shape = tensor.data !== undefined && tensor.shape.length > 1 ? `.reshape(${tensor.shape.join(", ")})` : "";
  return `np.array(${pythonValue(value)}, dtype=${dtype === "bool" || dtype === "object" ? dtype : `np.${dtype}`})${shape}`;
}

function openaiOf(model, call, key) {
  const authorised = key && /^bearer /i.test(key.value);
  const options = [`base_url="${ROOT}/v1"`, `api_key="${authorised ? KEY : "none"}"`];
  if (key && !authorised) options.push(`default_headers={${JSON.stringify(key.header)}: "${KEY}"}`);
  const fields = Object.entries(call.options ?? {}).map(([name, value]) => `    ${name}=${pythonValue(value)},`);
  const plain = pythonValue(call.messages);
  const messages = withFiles(plain, call.names ?? [], (name) => `" + read(${JSON.stringify(name)})`);
  const imports = messages === plain ? [] : ["from base64 import b64encode", "from pathlib import Path", ""];
  const reading = messages === plain ? [] : ["", "def read(name):", "    return b64encode(Path(name).read_bytes()).decode()", "", ""];
  return [
    ...imports,
    "from openai import OpenAI",
    "",
    ...reading,
    `client = OpenAI(${options.join(", ")})`,
    "chunks = client.chat.completions.create(",
    `    model=${JSON.stringify(model.name)},`,
    `    messages=${messages},`,
    ...fields,
    "    stream=True,",
    ")",
    "for chunk in chunks:",
    "    for choice in chunk.choices:",
    `        print(choice.delta.content or ${call.options?.tools ? 'choice.delta.tool_calls or ""' : '""'}, end="", flush=True)`,
  ].join("\n");
}

/** The first lines of code for the Triton client, up to the inputs, and the arguments of its call. */
function tritonCall(model, call, module) {
  const imports = new Set(["import numpy as np"]);
  const inputs = argumentsOf(model, call).map(([name, tensor, value], index) => {
    const { datatype, shape, data } = tensor.data === undefined ? tensorOf(tensor, value) : { ...tensor, data: value };
    const files = call.files?.[name];
    if (files?.length) imports.add("from pathlib import Path");
    const array = files?.length ? `np.array([${files.map(readBytes).join(", ")}], dtype=object)` : numpyOf({ datatype, shape: [] }, data, imports);
    const shaped = shape.length === 1 ? array : `${array}.reshape(${shape.join(", ")})`;
    return [
      `input_${index} = triton.InferInput(${JSON.stringify(name)}, ${pythonValue(shape)}, "${datatype}")`,
      `input_${index}.set_data_from_numpy(${shaped})`,
    ];
  });
  const sorted = [...imports].sort((a, b) => a.startsWith("import") - b.startsWith("import"));
  const options = [JSON.stringify(model.name), `[${inputs.map((_, index) => `input_${index}`).join(", ")}]`];
  if (model.version) options.push(`model_version=${JSON.stringify(model.version)}`);
  return { lines: [...sorted, `import tritonclient.${module} as triton`, "", ...inputs.flat(), ""], options };
}

function tritonOf(model, call, key) {
  const { lines, options } = tritonCall(model, call, "http");
  const tls = ROOT.startsWith("https") ? ", ssl=True" : "";
  if (call.outputs) options.push(`outputs=[${call.outputs.map((name) => `triton.InferRequestedOutput(${JSON.stringify(name)})`).join(", ")}]`);
  if (key) options.push(`headers=${headersOf(key)}`);
  return [
    ...lines,
    `client = triton.InferenceServerClient("${ROOT.replace(/^https?:\/\//, "")}"${tls})`,
    `result = client.infer(${options.join(", ")})`,
    'for output in result.get_response()["outputs"]:',
    '    print(output["name"], result.as_numpy(output["name"]))',
  ].join("\n");
}

/** The Triton client streams only over gRPC. */
function tritonStreamOf(model, call, key) {
  const { lines, options } = tritonCall(model, call, "grpc");
  const headers = key ? `, headers=${headersOf(key, key.header.toLowerCase())}` : "";
  return [
    "import queue",
    ...lines,
    "responses = queue.Queue()",
    `client = triton.InferenceServerClient("${new URL(ROOT).hostname}:${model.grpcPort}")`,
    `client.start_stream(lambda result, error: responses.put((result, error))${headers})`,
    `client.async_stream_infer(${options.join(", ")}, enable_empty_final_response=True)`,
    "while True:",
    "    result, error = responses.get()",
    "    if error:",
    "        raise error",
    "    response = result.get_response()",
    "    for output in response.outputs:",
    "        print(output.name, result.as_numpy(output.name))",
    '    if response.parameters["triton_final_response"].bool_param:',
    "        break",
    "client.stop_stream()",
  ].join("\n");
}

function javaScriptOf(model, call, key) {
  const files = Object.values(call.files ?? {}).flat();
  let body = pretty(marked(call.body, call.files ?? {}));
  for (const [index, name] of files.entries()) body = body.replace(JSON.stringify(markOf(index)), () => readBase64(name));
  const version = model.version ? `, { version: ${JSON.stringify(model.version)} }` : "";
  const given = `${JSON.stringify(model.name)}, ${body}${version}`;
  const tensors = isV2(call.body);
  const lines = call.streamed
    ? [`for await (const { data } of client.stream(${given})) {`, `  console.log(${tensors ? "data.outputs" : "data"});`, "}"]
    : tensors
      ? [`const { outputs } = await client.infer(${given});`, "console.log(outputs);"]
      : [`console.log(await client.generate(${given}));`];
  return [...clientOf(key, files.length > 0), ...lines].join("\n");
}

const readBase64 = (name) => `(await readFile(${JSON.stringify(name)})).toString("base64")`;

function clientOf(key, readsFiles) {
  const options = key ? `, { headers: ${headersOf(key)} }` : "";
  const reading = readsFiles ? ['import { readFile } from "node:fs/promises";'] : [];
  return [JAVASCRIPT, ...reading, "", `const client = new Client("${ROOT}"${options});`];
}

function chatJavaScriptOf(model, call, key) {
  const options = Object.keys(call.options).length ? `, ${pretty(call.options)}` : "";
  const plain = pretty(call.messages);
  const messages = withFiles(plain, call.names, (name) => `" + ${readBase64(name)}`);
  return [
    ...clientOf(key, messages !== plain),
    `const messages = ${messages};`,
    `for await (const chunk of client.chat(${JSON.stringify(model.name)}, messages${options})) {`,
    `  console.log(chunk.choices[0]?.delta.content ?? ${call.options.tools ? 'chunk.choices[0]?.delta.tool_calls ?? ""' : '""'});`,
    "}",
  ].join("\n");
}

/** The card with the code. `call()` returns the current call, or null if a value is wrong. */
export class Snippets {
  constructor(model, server, call) {
    this._model = model;
    this._server = server;
    this._call = call;
    this._chosen = "curl";
    this._body = h("div", { class: "snippet" });
    this._texts = new Map();
    const copy = copyButton(() => this._texts.get(this._chosen) ?? "", "this code");
    this._left = h("p", { class: "note" });
    const head = h("div", { class: "card-head" }, h("h2", {}, "The same call as code"), this._left, copy);
    this.element = h("section", { class: "card code-card", "aria-label": "This call as code", "aria-busy": "true" }, head, this._body);
  }

  /** Mark the code as outdated until it is drawn again. */
  outdate() {
    this.element.setAttribute("aria-busy", "true");
  }

  async draw() {
    const call = await this._call();
    this.element.setAttribute("aria-busy", "false");
    if (call === null) return;
    this._left.textContent = call.left > 0 ? `without the other ${call.left.toLocaleString("en")} rows` : "";
    const found = snippetsOf(this._model, call, this._server.key);
    const panels = found.map(([key, title, text]) => [key, title, panelOf(title, text)]);
    if (!found.some(([key]) => key === this._chosen)) this._chosen = "curl";
    const texts = JSON.stringify(found);
    if (texts === this._drawn) return;
    this._drawn = texts;
    this._texts = new Map(found.map(([key, , text]) => [key, text]));
    const list = tabs("Clients", panels, this._chosen, (key) => (this._chosen = key));
    const focused = this._body.contains(document.activeElement);
    this._body.replaceChildren(list, ...panels.map(([, , panel]) => panel));
    if (focused) list.querySelector("[aria-selected=true]").focus({ preventScroll: true });
  }
}

function panelOf(title, text) {
  const shown = text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN)}\n… ${text.length - MOST_SHOWN} more characters; Copy has them all` : text;
  return h("div", { class: "panel" }, scrollText(`Code: ${title}`, h("code", {}, shown)));
}

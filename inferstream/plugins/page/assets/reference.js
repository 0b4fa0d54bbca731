// The reference of the API: every operation of an OpenAPI document, with fields for its path and its body.

import { copyButton, h, icon, labelled, newId, scrollText } from "./dom.js";
import { parsed, pretty } from "./fields.js";
import { quoted } from "./snippets.js";
import { ROOT, pathOf } from "./server.js";

const GROUPS = [
  ["Models", /^\/v2\/models\/[^/{]|^\/v2\/models\/\{/],
  ["Texts", /^$/], // by the tags of their operations
  ["Repository", /^\/v2\/repository/],
  ["Server", /./],
];

/** `<api-reference>` shows one document. */
export class ApiReference extends HTMLElement {
  async show(server, path) {
    this._server = server;
    this._first = "";
    this.replaceChildren(h("p", { class: "quiet" }, "Loading …"));
    let document_;
    try {
      [document_] = await Promise.all([server.json(path), server.refresh()]);
    } catch (error) {
      this.replaceChildren(h("div", { class: "error", role: "alert" }, h("strong", {}, "No document"), h("p", {}, error.message)));
      return;
    }
    const ready = server.models.filter(({ state }) => state === "READY");
    this._models = ready.map(({ name }) => name);
    document.title = `API · ${document_.info.title}`;
    const groups = new Map(GROUPS.map(([name]) => [name, []]));
    for (const [where, methods] of Object.entries(document_.paths)) {
      for (const [method, operation] of Object.entries(methods)) {
        const tag = operation.tags?.find((each) => groups.has(each));
        const [name] = tag ? [tag] : GROUPS.find(([, pattern]) => pattern.test(where));
        groups.get(name).push([where, method, operation]);
      }
    }
    const sections = [...groups].filter(([, found]) => found.length).map(([name, found]) => this._group(name, found));
    this.replaceChildren(
      h("header", { class: "model-head" }, h("h1", {}, "API reference"), h("p", { class: "description" }, document_.info.title, " · ", h("a", { href: ROOT + path }, "OpenAPI document"), " · ", h("a", { href: `${ROOT}/proto` }, "Proto files for gRPC"))),
      ...sections,
    );
  }

  _group(name, found) {
    return h("section", { class: "operations" }, h("h2", {}, name), found.map((each) => this._operation(...each)));
  }

  _operation(path, method, operation) {
    const socket = operation["x-websocket"];
    const word = socket ? "WS" : method.toUpperCase();
    const summary = h("summary", {}, h("span", { class: `method ${word.toLowerCase()}` }, word), h("code", {}, path), h("span", { class: "quiet" }, operation.summary));
    const box = h("details", { class: "operation" }, summary);
    box.addEventListener("toggle", () => {
      if (box.open && box.childElementCount === 1) box.append(this._call(path, method, operation, socket));
    });
    return box;
  }

  /** The fields and the button of one operation, made when it is opened. */
  _call(path, method, operation, socket) {
    const content = operation.requestBody?.content?.["application/json"];
    const parameters = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => this._parameter(name));
    const headers = (operation.parameters ?? []).filter((each) => each.in === "header").map(headerField);
    const given = () => headers.map(({ name, input }) => [name, input.value.trim()]).filter(([, value]) => value);
    const body = content || socket ? h("textarea", { id: newId("body"), class: "code", rows: 8, spellcheck: false }) : null;
    const out = scrollText("Response", "", { hidden: true });
    const note = h("p", { class: "note", role: "status" });
    const send = h("button", { type: "submit", class: "primary" }, socket ? "Connect and send" : "Send");
    const stop = h("button", { type: "button", class: "stop", hidden: true }, icon("stop"), "Stop");
    const address = () => ROOT + parameters.reduce((text, { name, read }) => text.replace(`{${name}}`, read()), path);
    const command = scrollText("Command", "");
    const exchange = { server: this._server, address, method, given, body, out, note, send, stop };
    const draw = () => {
      if (socket) return;
      const verb = body && method === "post" ? "" : `-X ${method.toUpperCase()} `;
      const lines = [`curl ${verb}${quoted(address())}`, ...given().map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`)];
      if (body) lines.push("-H 'content-type: application/json'", `-d ${quoted(body.value)}`);
      command.textContent = lines.join(" \\\n  ");
    };
    let newest = 0;
    const fill = async () => {
      const turn = ++newest; // the example of the last model may arrive late
      send.disabled = true;
      const example = body && pretty(await this._example(path, operation, content, socket, parameters));
      if (turn !== newest) return;
      if (body) body.value = example;
      send.disabled = false;
      draw();
    };
    for (const { input } of parameters) input.addEventListener("change", fill);
    fill();
    const run = (event) => {
      event.preventDefault();
      if (socket) talk(exchange);
      else this._send(exchange);
    };
    return h(
      "form",
      { class: "call", onsubmit: run, oninput: draw, novalidate: true },
      [...parameters, ...headers].map(({ element }) => element),
      body && labelled(body, "Body", h("span", { class: "kind" }, "JSON")),
      h("div", { class: "actions" }, send, stop, note),
      out,
      socket ? null : h("div", { class: "snippet" }, h("div", { class: "card-head" }, h("span", { class: "kind" }, "curl"), copyButton(() => command.textContent, `${method} ${path}`)), command),
    );
  }

  /** The field of a part of the path. A model name is a list of the models that are ready. */
  _parameter(name) {
    const id = newId(name);
    const isModel = name === "model_name" || name === "name";
    const [first] = this._models;
    const version = this._server.models.find((each) => each.name === first)?.versions[0]?.version;
    const options = this._models.map((each) => h("option", {}, each));
    const input = isModel && first ? h("select", { id }, options) : h("input", { id, value: name.includes("version") ? version || "1" : "" });
    const read = () => encodeURIComponent(input.value).replaceAll("%2F", "/");
    return { name, input, read, element: labelled(input, name) };
  }

  /** An example of the body. For a model, its own document has one. */
  async _example(path, operation, content, socket, parameters) {
    const model = parameters.find(({ name }) => name === "model_name")?.input.value;
    if (model && path.startsWith("/v2/models/")) {
      const where = path.slice(path.lastIndexOf("}") + 1);
      const own = await this._server.json(`${pathOf(model)}/docs/dataplane.json`).catch(() => null);
      const found = own?.paths[`/v2/models/${model}${where}`];
      const example = found?.get?.["x-websocket"] ?? found?.post?.requestBody?.content["application/json"].example;
      if (example) return example;
    }
    const given = socket ?? content?.example ?? {};
    const first = path.startsWith("/v2") ? undefined : this._models[0];
    return given.model === "model" && first ? { ...given, model: first } : given;
  }

  async _send({ address, method, given, body, out, note, send, stop }) {
    const leaving = new AbortController();
    stop.onclick = () => leaving.abort();
    send.hidden = true;
    stop.hidden = out.hidden = false;
    out.textContent = "";
    note.textContent = "";
    try {
      const headers = { ...this._server.client.headers, ...Object.fromEntries(given()), ...(body ? { "content-type": "application/json" } : {}) };
      const began = performance.now();
      const response = await fetch(address(), { method: method.toUpperCase(), headers, body: body?.value, signal: leaving.signal });
      note.textContent = `${response.status} ${response.statusText} · ${Math.round(performance.now() - began)} ms`;
      note.dataset.state = response.ok ? "done" : "failed";
      await print(response, out);
    } catch (error) {
      note.textContent = leaving.signal.aborted ? "Stopped" : error.message;
      note.dataset.state = "failed";
    } finally {
      send.hidden = false;
      stop.hidden = true;
    }
  }
}

/** The field of a header. An empty one is not sent. */
function headerField({ name, description, required }) {
  const input = h("input", { id: newId(name), required, "aria-describedby": newId("about") });
  const element = labelled(input, name, h("span", { class: "kind" }, "header"));
  element.append(h("p", { id: input.getAttribute("aria-describedby"), class: "quiet" }, (description ?? "").replaceAll("`", "")));
  return { name, input, element };
}

/** Print the body of a response as it arrives, and indent it if it is JSON. */
async function print(response, out) {
  const isJson = response.headers.get("content-type")?.startsWith("application/json");
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const text = document.createTextNode("");
  out.append(text);
  for (let item = await reader.read(); !item.done; item = await reader.read()) text.appendData(item.value);
  const found = isJson ? parsed(text.data) : undefined;
  if (found !== undefined) text.data = pretty(found);
}

/** Send a request over a WebSocket, which stays open until the user stops it. */
function talk({ server, address, body, out, note, stop, send }) {
  const say = (line) => out.append(`${line}\n`);
  out.hidden = false;
  if (send.socket?.readyState === WebSocket.OPEN) {
    send.socket.send(body.value);
    return;
  }
  out.textContent = "";
  const socket = (send.socket = server.socket(address()));
  stop.hidden = false;
  stop.onclick = () => socket.close();
  socket.onopen = () => {
    note.textContent = "connected";
    socket.send(body.value);
  };
  socket.onmessage = (event) => say(event.data);
  socket.onclose = (event) => {
    note.textContent = `closed: ${event.code} ${event.reason}`;
    stop.hidden = true;
  };
}

customElements.define("api-reference", ApiReference);

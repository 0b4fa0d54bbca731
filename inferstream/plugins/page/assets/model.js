// One model: its state, signature and description, the form, the chat, and the call as code.

import { h, tabs } from "./dom.js";
import { columnsOf } from "./columns.js";
import { kindOf, factsOf } from "./fields.js";
import { errorBox } from "./errors.js";
import { Runner } from "./run.js";
import { Snippets } from "./snippets.js";

const STATES = { READY: "ready", LOADING: "loading", UNLOADING: "unloading", UNAVAILABLE: "failed", UNKNOWN: "unknown" };

/** The word for a state. */
export function stateOf({ state, reason }) {
  const unloaded = state === "UNAVAILABLE" && reason === "not loaded";
  return unloaded ? "not loaded" : (STATES[state] ?? state.toLowerCase());
}

export function stateChip(version) {
  const word = stateOf(version);
  return h("span", { class: "state", "data-state": word }, word);
}

/** `<model-view>` shows one model after another. */
export class ModelView extends HTMLElement {
  /** Keys run and stop the model wherever the focus is. */
  connectedCallback() {
    document.addEventListener("keydown", (event) => {
      if (event.defaultPrevented || this.hidden || document.querySelector("dialog[open]")) return;
      if (this._mode !== "chat") this._runner?.key(event);
      else if (event.key === "Escape") this._chat?.stop();
    });
  }

  /** Show a model of this server; `chosen` is {name, version, tab}. */
  async show(server, chosen, changed) {
    this._server = server;
    this._chosen = chosen;
    this._changed = changed;
    this._described = null;
    this._shown = "";
    this.inert = true; // the page still shows the form of the last model
    await this.look();
    if (this._chosen === chosen) this.inert = false;
  }

  /** Get the current state of the model, and draw it if it has changed. */
  async look() {
    if (!this._chosen) return;
    const { name, version } = this._chosen;
    const listed = this._server.models.find((each) => each.name === name);
    if (listed === undefined) {
      if (this._server.complete && !this._keep({ name, versions: [] }, { state: "UNAVAILABLE", reason: "not loaded" })) this._missing(name);
      return;
    }
    const entry = listed.versions.find((each) => each.version === (version ?? "")) ?? listed;
    if (entry.state !== "READY") {
      this._unready(listed, entry);
      return;
    }
    let described;
    try {
      described = await this._server.describe(name, version);
      if (described.texts) this._chats ??= await import("./chat.js");
    } catch (error) {
      if (this._chosen.name === name && this._described === null) this._failed(listed, error);
      return;
    }
    if (this._chosen.name !== name || this._chosen.version !== version) return; // another model was chosen in the meantime
    const text = JSON.stringify([described, listed]);
    if (text === this._shown || this.running) return;
    this._shown = text;
    await this._draw(listed, entry, described);
  }

  get running() {
    return Boolean(this._runner?.running || this._chat?.running);
  }

  leave() {
    this._runner?.stop();
    this._chat?.stop();
    this._runner = this._chat = null;
  }

  _head(listed, entry, described) {
    const versions = listed.versions.length > 1 ? this._versions(listed) : entry.version ? h("span", { class: "chip" }, `version ${entry.version}`) : null;
    const platform = described?.platform ? h("span", { class: "chip" }, described.platform) : null;
    const kinds = described ? [described.predicts && "predict", described.streams && "stream", described.texts && "text"].filter(Boolean) : [];
    return h(
      "header",
      { class: "model-head" },
      h("div", { class: "title" }, h("h1", { tabindex: -1 }, listed.name), stateChip(entry)),
      h("div", { class: "chips" }, versions, kinds.map((kind) => h("span", { class: "chip" }, kind)), platform),
      described ? signature(described) : null,
      described ? description(described.description) : null,
      described ? graph(described.calls) : null,
      entry.state === "READY" && entry.reason ? h("p", { class: "warning" }, entry.reason) : null,
    );
  }

  _versions(listed) {
    const options = listed.versions.map(({ version }) => h("option", { value: version }, version ? `version ${version}` : "no version"));
    const usual = h("option", { value: "\u0000" }, "default version");
    const select = h("select", { class: "versions", "aria-label": "Version" }, usual, options.filter(({ value }) => value !== ""));
    select.value = this._chosen.version ?? "\u0000";
    select.addEventListener("change", () => this._changed({ ...this._chosen, version: select.value === "\u0000" ? undefined : select.value }));
    return select;
  }

  async _draw(listed, entry, described) {
    const before = this._described;
    const same = before !== null && before.name === described.name && before.version === described.version;
    const kept = same ? await this._runner.kept() : null;
    const old = same ? this._runner : null;
    const unchanged = same && JSON.stringify(before) === JSON.stringify(described);
    this._described = described;
    if (unchanged && old) {
      const head = this._head(listed, entry, described);
      const was = this.querySelector(".model-head");
      const focused = was.contains(document.activeElement) ? document.activeElement.localName : null;
      was.replaceWith(head);
      if (focused) head.querySelector(focused)?.focus({ preventScroll: true });
      return;
    }
    const draw = () => this._outdate();
    const runner = new Runner(described, this._server, draw);
    const talks = described.texts && !described.version;
    const chat = talks ? ((same && this._chat) || new this._chats.Chat(described, this._server, draw)) : null;
    if (chat !== null && chat === this._chat) chat.adapt(described);
    this._chat = chat;
    const snippets = new Snippets(described, this._server, async () => (this._mode === "chat" ? chat.call() : runner.call()));
    this._runner = runner;
    this._snippets = snippets;
    if (kept) runner.restore(kept, old);
    const ways = chat ? this._ways(described, chat, runner) : [h("div", {}, runner.element)];
    if (!chat) this._mode = "form";
    const focused = this.contains(document.activeElement) ? document.activeElement.name : "";
    this.replaceChildren(this._head(listed, entry, described), ...ways, snippets.element);
    if (focused) runner.leaf(focused)?.input.focus();
    snippets.draw();
  }

  /** Draw the code of the changed call soon. */
  _outdate() {
    this._snippets.outdate();
    clearTimeout(this._later);
    this._later = setTimeout(() => this._snippets.draw(), 120);
  }

  /** The tabs of a text model, and their panels. */
  _ways(described, chat, runner) {
    const talk = ["chat", "Chat", h("div", {}, chat.element)];
    const form = ["form", "Form", h("div", {}, runner.element)];
    const entries = this._chats.prefersChat(described) ? [talk, form] : [form, talk];
    const [[usual]] = entries;
    this._mode = ["chat", "form"].includes(this._chosen.tab) ? this._chosen.tab : usual;
    const list = tabs("Ways to call this model", entries, this._mode, (key) => {
      this._mode = key;
      this._chosen = { ...this._chosen, tab: key === usual ? undefined : key };
      this._changed(this._chosen, true);
      this._outdate();
    });
    list.classList.add("modes");
    return [list, ...entries.map(([, , panel]) => panel)];
  }

  /** Keep the output of a model that is gone, with the reason above it. Returns false if there is no output. */
  _keep(listed, entry) {
    if (!this._runner?.used && !this._chat?.used) return false;
    const text = JSON.stringify([listed, entry]);
    if (text === this._shown) return true;
    this._shown = text;
    const word = stateOf(entry);
    const reason = entry.reason && entry.reason !== word ? `${word}: ${entry.reason}` : word;
    const head = this._head({ name: this._described.name, ...listed }, entry, this._described);
    head.append(h("p", { class: "warning", role: "status" }, `The model is no longer ready (${reason}). Its output stays below.`));
    this.querySelector(".model-head").replaceWith(head);
    return true;
  }

  _unready(listed, entry) {
    if (this._keep(listed, entry)) return;
    const text = JSON.stringify([listed, entry]);
    if (text === this._shown) return;
    this._shown = text;
    this.leave();
    this._described = null;
    const word = stateOf(entry);
    const why = entry.reason && entry.reason !== word ? h("pre", { class: "reason", tabindex: 0 }, entry.reason) : null;
    const line = word === "loading" ? "This model is loading. The form appears when it is ready." : `This model is ${word === "failed" ? "not there, because it failed to load" : word}.`;
    this.replaceChildren(this._head(listed, entry, null), h("section", { class: "card" }, h("p", { role: "status" }, line), why));
  }

  _failed(listed, error) {
    this.leave();
    this.replaceChildren(this._head(listed, listed, null), errorBox(error, this._server));
  }

  _missing(name) {
    this._shown = "";
    this._described = null;
    this.leave();
    this.replaceChildren(h("header", { class: "model-head" }, h("h1", { tabindex: -1 }, name)), h("section", { class: "card" }, h("p", {}, "This server has no model of this name.")));
  }
}

/** The models that a model calls, with the models that they call. */
function graph(calls) {
  const items = (below) => h("ul", {}, Object.entries(below).map(([name, further]) => h("li", {}, h("a", { href: `?${new URLSearchParams({ model: name })}` }, name), Object.keys(further).length ? items(further) : null)));
  return Object.keys(calls).length ? h("nav", { class: "graph", "aria-label": "Models that this one calls" }, h("p", {}, "calls"), items(calls)) : null;
}

const MAX_INPUTS = 8;

/** `words(prompt: text, pause: number = 0.05) → stream of text` */
function signature(model) {
  if (model.inputs.length === 0 && model.outputs.length === 0) return null;
  const columns = columnsOf(model);
  const inputs = model.inputs.slice(0, MAX_INPUTS).map((tensor, index) => {
    const { fallback, optional } = factsOf(tensor);
    const usual = fallback !== undefined ? ` = ${JSON.stringify(fallback)}` : optional ? "?" : "";
    return [index ? ", " : "", h("b", {}, tensor.name), ": ", h("i", {}, columns && !columns[0].matrix ? columns[index].kind : kindOf(tensor)), usual];
  });
  const outputs = model.outputs.map((tensor, index) => [index ? ", " : "", model.outputs.length > 1 ? [h("b", {}, tensor.name), ": "] : null, h("i", {}, kindOf(tensor))].flat());
  if (model.inputs.length > MAX_INPUTS) inputs.push([`, … ${model.inputs.length - MAX_INPUTS} more`]);
  const given = outputs.length ? outputs : [h("i", {}, "…")];
  const streams = model.streams && !model.predicts ? "stream of " : "";
  return h("p", { class: "signature" }, h("code", {}, model.name, "(", inputs.flat(), ") → ", streams, given.flat()));
}

function description(text) {
  if (!text) return null;
  const [first, ...rest] = text.split(/\n\s*\n/);
  const more = rest.length ? h("details", {}, h("summary", {}, "More"), h("p", { class: "more" }, proseOf(rest.join("\n\n")))) : null;
  return h("div", { class: "description" }, h("p", {}, proseOf(first.replace(/\s*\n\s*/g, " "))), more);
}

/** A description with its `code` and ``code`` as code elements. */
const proseOf = (text) => text.split(/(``[^`]+``|`[^`]+`)/).map((part) => (/^`.*`$/s.test(part) ? h("code", {}, part.replace(/^`+|`+$/g, "")) : part));

customElements.define("model-view", ModelView);

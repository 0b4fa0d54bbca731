// A chat with a text model. The conversation exists only in this page.

import { button, download, h, icon, newId } from "./dom.js";
import { ChatFiles, ChatOptions } from "./chat_options.js";
import { TEXT, pretty } from "./fields.js";
import { Reply, UserMessage, contentOf, isSending } from "./messages.js";

/** Inputs other than the prompt that a chat can fill. */
const FILLED = new Set("messages tools response_format images audio chat_template_kwargs suffix max_tokens temperature top_p top_k min_p seed presence_penalty frequency_penalty repetition_penalty logprobs top_logprobs logit_bias stream".split(" "));

/** Whether a chat is the usual way to call a model: it streams text, and a chat can fill all its inputs. */
export function prefersChat({ streams, inputs }) {
  return streams && inputs.length > 0 && inputs.filter(({ name }) => !FILLED.has(name)).length <= 1;
}

/** The conversation with one model, and the fields below it. */
export class Chat {
  constructor(model, server, changed) {
    this._server = server;
    this._changed = changed;
    this._entries = [];
    this._leaving = null;
    this._comparison = null;
    this._thread = h("div", { class: "thread", role: "log", "aria-label": `Chat with ${model.name}`, tabindex: 0 });
    this._empty = h("p", { class: "quiet empty" }, `Write to ${model.name}. The model gets the whole conversation each time.`);
    this._thread.append(this._empty);
    const id = newId("message");
    this._input = h("textarea", { id, rows: 1, placeholder: "Write a message", onkeydown: (event) => this._key(event), oninput: () => this._grow() });
    this._send = h("button", { type: "submit", class: "primary round", "aria-label": "Send" }, icon("send"));
    this._stop = h("button", { type: "button", class: "stop round", hidden: true, "aria-label": "Stop", onclick: () => this.stop() }, icon("stop"));
    this._again = button("Regenerate", () => this._ready() && this._respond(this._entries.length - 1));
    this._compare = button("Compare", () => this._choose(), { "aria-pressed": "false" });
    this._files = h("div", {});
    this._options = h("div", {});
    this.element = h(
      "div",
      { class: "card chat" },
      this._thread,
      this._files,
      h("form", { class: "composer", "aria-label": "Message", onsubmit: (event) => this._submit(event) }, h("label", { class: "unseen", for: id }, "Message"), this._input, this._send, this._stop),
      h("div", { class: "chat-foot" }, button("New chat", () => this._clear()), button("Export JSON", () => this._export()), this._compare),
      this._options,
    );
    this.adapt(model);
  }

  /** Use this description of the model. The conversation stays. */
  adapt(model) {
    this._model = model;
    this.options = new ChatOptions(model, this._changed, this.options);
    this.files = new ChatFiles(model, this._changed, this.files);
    this._options.replaceChildren(this.options.element);
    this._files.replaceChildren(this.files.element);
  }

  get running() {
    return this._leaving !== null;
  }

  get used() {
    return this._entries.length > 0;
  }

  /** The call of the next message, for the code. Null if an option is wrong. */
  async call() {
    const read = this.options.read();
    if (read === null) return null;
    const parts = await this.files.parts();
    const text = this._input.value || (this._entries.length || parts.length ? "" : TEXT);
    const messages = this._messages(read.system);
    if (text || parts.length) messages.push({ role: "user", content: contentOf(text, parts) });
    else if (messages.at(-1)?.role === "assistant") messages.pop();
    return { messages, options: read.options, names: this.files.names };
  }

  /** The conversation. `lane` is 1 for the second model of a comparison. */
  _messages(system, lane = 0) {
    return [...(system ? [{ role: "system", content: system }] : []), ...this._entries.flatMap((entry) => entry.messages(lane))];
  }

  _key(event) {
    if (isSending(event)) this._submit(event);
    if (event.key === "Escape") this.stop();
  }

  _grow() {
    this._input.rows = Math.min(8, Math.max(1, this._input.value.split("\n").length));
    this._changed();
  }

  async _submit(event) {
    event.preventDefault();
    const parts = await this.files.parts();
    const text = this._input.value.trim();
    if ((!text && !parts.length) || !this._ask(contentOf(text, parts))) return;
    this._input.value = "";
    this.files.clear();
    this._grow();
  }

  /** Whether a request can be sent: none is running, and no option is wrong. */
  _ready() {
    return !this.running && this.options.read(true) !== null;
  }

  /** Send a message after the first `count` entries. Returns whether it was sent. */
  _ask(content, count = this._entries.length) {
    if (!this._ready()) return false;
    this._cut(count);
    const [asked, reply] = this._entries.slice(-2);
    if (reply?.messages().length === 0) asked.dropped = true;
    const message = new UserMessage(content, (next) => this._ask(next, this._entries.indexOf(message)));
    this._add(message);
    this._respond();
    return true;
  }

  _add(entry) {
    this._empty.remove();
    this._entries.push(entry);
    this._thread.append(entry.element);
    this._thread.scrollTop = this._thread.scrollHeight;
  }

  _cut(count) {
    for (const { element } of this._entries.splice(count)) element.remove();
  }

  /** Draw, and stay at the end of the thread if it is in view. */
  _follow(draw) {
    const follows = this._thread.scrollTop + this._thread.clientHeight >= this._thread.scrollHeight - 48;
    draw();
    if (follows) this._thread.scrollTop = this._thread.scrollHeight;
  }

  /** Get the response to the first `count` entries. */
  async _respond(count = this._entries.length) {
    this._cut(count);
    for (const result of this._thread.querySelectorAll(".tool-call textarea")) result.readOnly = true; // they are sent now
    for (const button of this._thread.querySelectorAll(".tool-call + button")) button.remove();
    const { system, options } = this.options.read();
    const messages = [0, 1].map((lane) => this._messages(system, lane));
    const { signal } = (this._leaving = new AbortController());
    const hooks = { follow: (draw) => this._follow(draw), changed: this._changed, answered: () => this._ready() && this._respond() };
    const reply = this._comparison?.reply(hooks) ?? new Reply(this._model.name, this._server, hooks);
    this._add(reply);
    this._busy(true);
    await reply.run(messages[0], options, signal, messages[1]);
    this._leaving = null;
    this._follow(() => reply.actions.append(this._again));
    this._busy(false);
    this._changed();
  }

  stop() {
    this._leaving?.abort();
  }

  _busy(busy) {
    const focused = (busy ? [this._send, document.body] : [this._stop]).includes(document.activeElement);
    this._send.hidden = busy;
    this._stop.hidden = !busy;
    if (focused) (busy ? this._stop : this._input).focus({ preventScroll: true });
  }

  _clear() {
    this.stop();
    this._cut(0);
    this._thread.replaceChildren(this._empty);
    this._input.focus();
    this._changed();
  }

  /** Download the conversation as the body of a request. */
  _export() {
    const read = this.options.read(true);
    if (read === null) return;
    const body = pretty({ model: this._model.name, messages: this._messages(read.system), ...read.options });
    download(`${this._model.name.replace(/[^\w.-]+/g, "-")}-chat.json`, "application/json", body);
  }

  /** Show the choice of a second model, or go back to one. */
  async _choose() {
    const { Comparison } = await import("./compare.js");
    this._comparison?.element.remove();
    this._comparison = this._comparison ? null : new Comparison(this._server, this._model.name);
    if (this._comparison) this._compare.after(this._comparison.element);
    this._compare.setAttribute("aria-pressed", String(this._comparison !== null));
  }
}

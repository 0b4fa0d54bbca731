// A chat with a model of texts. The history is in this page alone.

import { announce, copyButton, h, icon, newId } from "./dom.js";
import * as markdown from "./markdown.js";
import { Figures, GrowingText, Turns, eachFrame } from "./results.js";
import { errorBox } from "./run.js";
import { duration } from "./plots.js";

/** The thread with one model, and the field below it. */
export class Chat {
  constructor(model, server, changed) {
    this._model = model;
    this._server = server;
    this._changed = changed;
    this._history = [];
    this._leaving = null;
    this._thread = h("div", { class: "thread", role: "log", "aria-label": `Chat with ${model.name}`, tabindex: 0 });
    this._empty = h("p", { class: "quiet empty" }, `Write to ${model.name}. The model gets the whole conversation each time.`);
    this._thread.append(this._empty);
    const id = newId("message");
    this._input = h("textarea", { id, rows: 1, placeholder: "Write a message", onkeydown: (event) => this._key(event), oninput: () => this._grow() });
    this._send = h("button", { type: "submit", class: "primary round", "aria-label": "Send" }, icon("send"));
    this._stop = h("button", { type: "button", class: "stop round", hidden: true, "aria-label": "Stop", onclick: () => this.stop() }, icon("stop"));
    const clear = h("button", { type: "button", class: "small", onclick: () => this._clear() }, "New chat");
    this._limit = numberField("max_tokens", "Max tokens", 1, changed);
    this._heat = numberField("temperature", "Temperature", 0, changed, 0.1);
    const options = h("details", { class: "options" }, h("summary", {}, "Options"), this._limit.element, this._heat.element);
    this.element = h(
      "div",
      { class: "card chat" },
      this._thread,
      h(
        "form",
        { class: "composer", "aria-label": "Message", onsubmit: (event) => this._submit(event) },
        h("label", { class: "unseen", for: id }, "Message"),
        this._input,
        this._send,
        this._stop,
      ),
      h("div", { class: "chat-foot" }, clear, options),
    );
  }

  /** The call of the next message, for the code. */
  call() {
    const next = this._input.value || (this._history.length ? "" : "Once upon a time there was a server.");
    const messages = next ? [...this._history, { role: "user", content: next }] : [...this._history];
    if (messages.at(-1)?.role === "assistant") messages.pop();
    return { messages, options: this._options() };
  }

  _options() {
    const found = {};
    const limit = this._limit.read();
    const heat = this._heat.read();
    if (limit !== null) found.max_tokens = limit;
    if (heat !== null) found.temperature = heat;
    return found;
  }

  _key(event) {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) this._submit(event);
    if (event.key === "Escape") this.stop();
  }

  _grow() {
    this._input.rows = Math.min(8, Math.max(1, this._input.value.split("\n").length));
    this._changed();
  }

  _submit(event) {
    event.preventDefault();
    const text = this._input.value.trim();
    if (!text || this._leaving !== null) return;
    this._input.value = "";
    this._grow();
    this._say("user", h("div", { class: "bubble" }, text));
    this._history.push({ role: "user", content: text });
    this._respond();
  }

  _say(role, ...contents) {
    this._empty.remove();
    const name = role === "user" ? "You" : this._model.name;
    const message = h("article", { class: `message ${role}`, "aria-label": name }, h("h3", { class: "who" }, name), contents);
    this._thread.append(message);
    this._thread.scrollTop = this._thread.scrollHeight;
    return message;
  }

  async _respond() {
    const leaving = (this._leaving = new AbortController());
    const figures = new Figures("tokens");
    const growing = new GrowingText(`Response of ${this._model.name}`, markdown);
    growing.element.classList.add("bubble");
    growing.element.removeAttribute("tabindex");
    const note = h("p", { class: "note", "data-state": "running" }, "waiting for the first token");
    const message = this._say("assistant", growing.element, note);
    const paint = eachFrame(() => {
      const follows = this._thread.scrollTop + this._thread.clientHeight >= this._thread.scrollHeight - 48;
      growing.paint();
      if (figures.first !== null) note.textContent = lineOf(figures);
      if (follows) this._thread.scrollTop = this._thread.scrollHeight;
    });
    this._busy(true);
    const turns = new Turns();
    try {
      const options = { ...this._options(), signal: leaving.signal };
      for await (const chunk of this._server.client.chat(this._model.name, this._history, options)) {
        const text = chunk.choices?.[0]?.delta?.content;
        if (!text) continue;
        figures.note();
        growing.push(text);
        paint();
        await turns.rest();
      }
      note.dataset.state = "done";
    } catch (error) {
      note.dataset.state = leaving.signal.aborted ? "done" : "failed";
      if (!leaving.signal.aborted) message.append(errorBox(error, this._server));
    } finally {
      figures.end();
      paint.now();
      const said = growing.whole;
      const stopped = leaving.signal.aborted ? "stopped" : "";
      note.textContent = [figures.first === null ? "" : lineOf(figures), stopped].filter(Boolean).join(" · ");
      const follows = this._thread.scrollTop + this._thread.clientHeight >= this._thread.scrollHeight - 48;
      if (figures.count > 1) message.append(h("details", { class: "gap-details" }, h("summary", {}, "Gaps"), figures.plot.element));
      if (said) message.append(copyButton(() => said, "this response"));
      if (follows) this._thread.scrollTop = this._thread.scrollHeight;
      if (said) this._history.push({ role: "assistant", content: said });
      else this._history.pop(); // what got no response is no part of the conversation
      announce(said ? `${this._model.name}: ${said.slice(-300)}` : "No response");
      this._leaving = null;
      this._busy(false);
      this._changed();
    }
  }

  stop() {
    this._leaving?.abort();
  }

  _busy(busy) {
    const focused = document.activeElement === this._stop || document.activeElement === this._send;
    this._send.hidden = busy;
    this._stop.hidden = !busy;
    if (focused) (busy ? this._stop : this._input).focus();
  }

  _clear() {
    this.stop();
    this._history = [];
    this._thread.replaceChildren(this._empty);
    this._input.focus();
    this._changed();
  }
}

function lineOf(figures) {
  const parts = [`first token ${duration(figures.first - figures.began)}`];
  if (figures.rate !== null) parts.push(`${figures.rate.toFixed(1)} tokens/s`);
  parts.push(`${figures.count} ${figures.count === 1 ? "token" : "tokens"}`);
  return parts.join(" · ");
}

function numberField(name, label, min, changed, step = 1) {
  const input = h("input", { id: newId(name), type: "number", min, step, oninput: changed });
  return {
    element: h("div", { class: "field inline" }, h("label", { for: input.id }, label), input),
    read: () => (input.value === "" || !input.validity.valid ? null : Number(input.value)),
  };
}

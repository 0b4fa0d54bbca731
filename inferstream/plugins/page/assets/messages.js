// The messages of a chat: user messages, which can be edited, and responses with their thinking and tool calls.

import { announce, button, copyButton, h, labelled, newId, scrollText } from "./dom.js";
import { errorBox } from "./errors.js";
import { parsed, pretty } from "./fields.js";
import * as markdown from "./markdown.js";
import { duration } from "./plots.js";
import { Figures, GrowingText } from "./results.js";
import { Turns, eachFrame } from "./turns.js";

const article = (role, name, ...children) => h("article", { class: `message ${role}`, "aria-label": name }, h("h2", { class: "who" }, name), children);

/** Whether a key sends the message of a text area. */
export const isSending = (event) => event.key === "Enter" && !event.shiftKey && !event.isComposing;

/** OpenAI content: a string, or a list of parts if there are files. */
export const contentOf = (text, parts) => (parts.length ? [...(text ? [{ type: "text", text }] : []), ...parts] : text);

/** A message of the user. `resend` takes the edited content. It is `dropped` if it got no response. */
export class UserMessage {
  dropped = false;

  constructor(content, resend) {
    const parts = Array.isArray(content) ? content : [{ type: "text", text: content }];
    this._content = content;
    this._resend = resend;
    this._files = parts.filter(({ type }) => type !== "text");
    this._text = parts.find(({ type }) => type === "text")?.text ?? "";
    this._body = h("div", { class: "user-body" });
    this.element = article("user", "You", this._body);
    this._show();
  }

  messages() {
    return this.dropped ? [] : [{ role: "user", content: this._content }];
  }

  _show() {
    const files = this._files.map((part) => (part.image_url ? h("img", { src: part.image_url.url, alt: "Attached image" }) : h("span", { class: "chip" }, "audio")));
    const edit = button("Edit", () => this._edit(), { "aria-label": "Edit this message" });
    this._body.replaceChildren(h("div", { class: "preview" }, files), h("div", { class: "bubble", hidden: !this._text }, this._text), edit);
  }

  _edit() {
    const input = h("textarea", { value: this._text, rows: 2, "aria-label": "Edited message", onkeydown: (event) => (isSending(event) ? send(event) : event.key === "Escape" && cancel()) });
    const cancel = () => (this._show(), this._body.querySelector("button").focus());
    const send = (event) => {
      event.preventDefault();
      const text = input.value.trim();
      if (text || this._files.length) this._resend(contentOf(text, this._files));
    };
    const actions = h("div", { class: "actions" }, button("Send", null, { type: "submit" }), button("Cancel", cancel));
    this._body.replaceChildren(h("form", { "aria-label": "Edit the message", onsubmit: send }, input, h("p", { class: "note" }, "The messages below are removed."), actions));
    input.focus();
  }
}

/**
 * One response of a model.
 *
 * `follow` draws and keeps the end in view, `changed` is called when a result of a tool is edited, and `answered`
 * continues with the results. Without `answered`, the next message sends them.
 */
export class Reply {
  constructor(name, server, { follow, changed, answered = null }) {
    this._name = name;
    this._server = server;
    this._hooks = { follow, changed, answered };
    this._calls = [];
    this._thought = null;
    this._text = new GrowingText(`Response of ${name}`, markdown);
    this._text.element.classList.add("bubble");
    this._text.element.removeAttribute("tabindex");
    this._tools = h("div", {});
    this._note = h("p", { class: "note", "data-state": "running" }, "waiting for the first token");
    this.actions = h("div", { class: "reply-actions" });
    this.element = article("assistant", name, this._text.element, this._tools, this._note, this.actions);
  }

  /** The response as messages, with the results of its tool calls. Empty without a response. */
  messages() {
    const calls = this._calls.filter((call) => call.value !== undefined);
    if (!this._text.whole && !calls.length) return [];
    const said = { role: "assistant", content: this._text.whole || null };
    if (this._thought) said.reasoning_content = this._thought.whole;
    if (calls.length) said.tool_calls = calls.map((call) => call.document);
    return [said, ...calls.map((call) => ({ role: "tool", tool_call_id: call.id, content: call.result.value }))];
  }

  /** Stream the response to these messages. A failure is shown below the text that arrived before it. */
  async run(messages, options, signal) {
    this._figures = new Figures("tokens");
    const paint = eachFrame(() => this._hooks.follow(() => this._paint()));
    const turns = new Turns();
    let failure = null;
    let ending = "";
    try {
      for await (const { choices } of this._server.client.chat(this._name, messages, { ...options, signal })) {
        const { delta = {}, finish_reason: reason } = choices?.[0] ?? {};
        if (reason === "length") ending = "reached the token limit";
        if (this._take(delta)) paint();
        await turns.rest();
      }
    } catch (error) {
      if (signal.aborted) ending = "stopped";
      else failure = error;
    }
    this._figures.end();
    paint.now();
    this._hooks.follow(() => this._end(failure, ending));
  }

  _take({ content, reasoning, reasoning_content: thought = reasoning, tool_calls: pieces }) {
    if (!content && !thought && !pieces?.length) return false;
    this._figures.note();
    if (content) this._text.push(content);
    if (thought) this._think(thought);
    for (const piece of pieces ?? []) (this._calls[piece.index ?? this._calls.length] ??= new ToolCall(this._hooks.changed)).take(piece);
    return true;
  }

  /** Add to the thinking, which is folded above the response. */
  _think(text) {
    if (this._thought === null) {
      this._thought = new GrowingText(`Thinking of ${this._name}`);
      this._text.element.before(h("details", { class: "thinking" }, h("summary", {}, "Thinking"), this._thought.element));
    }
    this._thought.push(text);
  }

  _paint() {
    this._text.paint();
    this._thought?.paint();
    this._calls.forEach((call) => call.draw(this._tools));
    if (this._figures.first !== null) this._note.textContent = lineOf(this._figures);
  }

  _end(failure, ending) {
    const text = this._text.whole;
    const calls = this._calls.filter((call) => call.value !== undefined);
    this._note.dataset.state = failure ? "failed" : "done";
    this._note.textContent = [this._figures.first !== null && lineOf(this._figures), ending].filter(Boolean).join(" · ");
    if (failure) this._note.after(errorBox(failure, this._server));
    for (const call of calls) call.field.hidden = false;
    if (calls.length && this._hooks.answered) this._tools.append(button(calls.length > 1 ? "Send the results" : "Send the result", this._hooks.answered));
    if (text) this.actions.append(copyButton(() => text, "this response"));
    if (this._figures.count > 1) this.actions.append(h("details", { class: "gap-details" }, h("summary", {}, "Gaps"), this._figures.plot.element));
    announce(text ? `${this._name}: ${text.slice(-300)}` : calls.length ? `Tool calls: ${calls.map(({ name }) => name).join(", ")}` : "No response");
  }
}

/** One tool call: its name, its arguments, and a field for its result. */
class ToolCall {
  id = "";
  name = "";
  _arguments = "";

  constructor(changed) {
    this._title = h("h3", {});
    this._code = h("code", {});
    this.result = h("textarea", { id: newId("result"), rows: 2, class: "code", oninput: changed });
    this.field = labelled(this.result, "Result");
    this.field.hidden = true;
    this._element = h("section", { class: "tool-call" }, this._title, scrollText("Arguments", this._code), this.field);
  }

  take({ id, function: { name, arguments: text } = {} }) {
    this.id ||= id ?? "";
    this.name += name ?? "";
    this._arguments += text ?? "";
  }

  draw(parent) {
    this._title.textContent = `Tool call: ${this.name}`;
    this.field.querySelector("label").textContent = `Result of ${this.name}`;
    this._code.textContent = this.value === undefined ? this._arguments : pretty(this.value);
    if (!this._element.isConnected) parent.append(this._element);
  }

  get document() {
    return { id: this.id, type: "function", function: { name: this.name, arguments: this._arguments || "{}" } };
  }

  /** The arguments; undefined while they are not complete. */
  get value() {
    return parsed(this._arguments || "{}");
  }
}

function lineOf({ began, count, first, rate }) {
  const speed = rate === null ? [] : [`${rate.toFixed(1)} tokens/s`];
  return [`first token ${duration(first - began)}`, ...speed, `${count} ${count === 1 ? "token" : "tokens"}`].join(" · ");
}

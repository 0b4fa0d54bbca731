// Two models side by side on one prompt.

import { h } from "./dom.js";
import { Reply } from "./messages.js";

/** The choice of a second text model. */
export class Comparison {
  constructor(server, first) {
    this._server = server;
    this._first = first;
    this._select = h("select", { "aria-label": "Second model" });
    this.element = h("span", { class: "field inline", role: "status" }, "Looking for models …");
    this._find();
  }

  async _find() {
    try {
      const { data } = await this._server.json("/v1/models");
      const names = data.map(({ id }) => id).filter((id) => id !== this._first);
      const found = await Promise.allSettled(names.map((name) => this._server.describe(name)));
      const options = found.filter(({ value }) => value?.texts).map(({ value }) => h("option", { value: value.name }, value.name));
      this._select.append(...options);
      this.element.replaceChildren(...(options.length ? ["with", this._select] : ["This server has no other text model."]));
    } catch (error) {
      this.element.replaceChildren(error.message);
    }
  }

  /** The response of both models to the next message; null without a second model. */
  reply(hooks) {
    return this._select.value ? new PairedReply([this._first, this._select.value], this._server, hooks) : null;
  }
}

/** The responses of two models to the same message. Each model continues its own conversation. */
class PairedReply {
  constructor(names, server, { follow, changed }) {
    this._replies = names.map((name) => new Reply(name, server, { follow, changed }));
    this.actions = h("div", { class: "reply-actions" });
    this.element = h("div", {}, h("div", { class: "pair" }, this._replies.map(({ element }) => element)), this.actions);
  }

  messages(lane = 0) {
    return this._replies[lane].messages();
  }

  run(messages, options, signal, others) {
    return Promise.all(this._replies.map((reply, lane) => reply.run(lane === 0 ? messages : others, options, signal)));
  }
}

// The keys of the server: their use today, and the rest of their limits.

import { h, head, scrollTable } from "./dom.js";
import { number, shown } from "./linechart.js";

const HEADS = ["Key", "Principal", "Calls today", "Rejected today", "Tokens today", "Requests left", "Tokens left", "Expires"];

/** The share of a limit from which a key is near it. */
const NEAR = 0.2;

/** A table of the keys, for users whose key has the scope `metrics`. */
export class KeyUsage {
  constructor(server) {
    this._server = server;
    this._body = h("tbody", {});
    this._note = h("p", { class: "quiet" });
    const heads = HEADS.map((title, index) => head(title, index > 1 ? "number" : null));
    this.element = h("section", { class: "card", hidden: true }, h("h2", {}, "Keys"), scrollTable("Keys", heads, this._body), this._note);
  }

  /** Load the keys again. Without keys or the scope, there is no table. */
  async look() {
    const { key } = this._server;
    if (this._closed === key) return; // each request would count as an error of the server
    const found = await this._server.json("/v2/keys").catch((error) => {
      if (![401, 403, 404].includes(error.status)) throw error;
      this._closed = key;
      return null;
    });
    this.element.hidden = found === null;
    if (found === null) return;
    this._body.replaceChildren(...found.keys.map((key) => this._row(key)));
    this._note.textContent = found.keys.some(({ today }) => today) ? "" : "To count the use of each day, set usage_file.";
  }

  _row({ id, principal, today, limits, left, expires }) {
    const daily = [today?.requests, today?.refused, today?.tokens].map((value) => shown(value, number));
    const of = (value, limit) => (value === undefined ? "unlimited" : limit === undefined ? number(value) : `${number(value)} of ${number(limit)}`);
    const most = limits.burst ?? Math.max(1, Math.ceil(limits.requests_per_second ?? 0));
    const tokens = Math.min(...[limits.tokens_per_minute, limits.tokens_per_day].filter((limit) => limit !== undefined));
    const texts = [principal, ...daily, of(left.requests, most), of(left.tokens, Number.isFinite(tokens) && left.tokens <= tokens ? tokens : undefined), expires ? new Date(expires * 1000).toLocaleDateString() : "never"];
    const shares = [left.requests / most, left.tokens / tokens].filter((share) => share >= 0);
    const near = Math.min(1, ...shares);
    return h("tr", {}, h("th", { scope: "row" }, id, near <= NEAR ? h("p", { class: "fault" }, near === 0 ? "at its limit" : "near its limit") : null), texts.map((text, index) => h("td", { class: index > 0 ? "number" : null }, text)));
  }
}

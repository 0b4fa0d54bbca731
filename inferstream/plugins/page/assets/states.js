// The table of all models: their states, figures and last errors, and the buttons that load and unload them.

import { announce, button, h, head, scrollTable } from "./dom.js";
import { bytes, number, seconds, shown } from "./linechart.js";
import { stateOf } from "./model.js";
import { keyOf } from "./rates.js";
import { pathOf } from "./server.js";

/** The reasons of models that are ready. Any other reason is why a reload failed. */
const RESIDENT = /^(in memory: .*|the next call loads it|loading)$/;
const TITLES = ["Model", "State", "Requests/s", "Errors/s", "p99 (est.)", "In progress", "Memory", "Actions"];
const numeric = (index) => (index > 1 && index < 7 ? "number" : null);

/** The states of all models of a server. `last` gives the last point of a version, and `failureOf` its last failed call. */
export class ModelStates {
  constructor(server, last, failureOf) {
    Object.assign(this, { _server: server, _last: last, _failureOf: failureOf, _rows: [], _faults: new Map(), _working: new Map() });
    this._body = h("tbody", {});
    this._note = h("p", { class: "help" });
    const heads = TITLES.map((title, index) => head(title, numeric(index)));
    this.element = h("section", { class: "card" }, h("h2", {}, "Models"), scrollTable("Models", heads, this._body, "states"), this._note);
  }

  /** Show the current states. Rows stay the same while the list of versions does. */
  draw() {
    const { models, mayLoad, closed, complete, refusal } = this._server;
    const versions = models.flatMap((model) => model.versions.map((entry, index) => ({ model, entry, isFirst: index === 0 })));
    const text = JSON.stringify([versions.map(({ model, entry }) => [model.name, entry.version]), mayLoad]);
    if (text !== this._shown) {
      this._rows = versions.map(({ model, entry, isFirst }) => this._row(model.name, entry.version, isFirst));
      this._body.replaceChildren(...this._rows.map(({ element }) => element));
      this._shown = text;
    }
    versions.forEach(({ model, entry }, index) => this._fill(this._rows[index], model, entry));
    const barred = `To load and unload models, use a key with the scope repository${closed ? ", or set allow_open_repository" : ""}.`;
    this._note.textContent = refusal || (!complete || mayLoad ? "" : barred);
  }

  _row(name, version, isFirst) {
    const words = isFirst && this._server.mayLoad ? ["Load", "Reload", "Unload"] : [];
    const buttons = words.map((word) => button(word, () => this._change(name, word), { "aria-label": `${word} ${name}` }));
    const [state, why, failed] = [h("span", { class: "state" }), h("p", { class: "fault" }), h("p", {})];
    const contents = [[state, why, failed], null, null, null, null, null, h("div", { class: "chips" }, buttons)];
    const cells = contents.map((content, index) => h("td", { class: numeric(index + 1) }, content));
    return { element: h("tr", {}, h("th", { scope: "row" }, name, version ? h("p", {}, `version ${version}`) : null), cells), cells, buttons, state, why, failed };
  }

  _fill({ cells, buttons, state, why, failed }, { name, versions }, entry) {
    const isLost = this._server.reachable === false;
    const isResident = RESIDENT.test(entry.reason);
    const isOld = entry.state === "READY" && entry.reason && !isResident;
    const word = this._working.get(name) ?? (isLost ? "not reachable" : isOld ? "reload failed" : stateOf(entry));
    state.textContent = word;
    state.dataset.state = isLost || isOld ? "failed" : word;
    why.textContent = this._faults.get(name) ?? (isResident || entry.reason === word ? "" : entry.reason);
    const failure = this._failureOf(keyOf(name, entry.version));
    failed.textContent = failure ? `Last failed call, ${new Date(failure[0] * 1000).toLocaleTimeString()}: ${failure[2] ?? failure[1]}` : "";
    const { requests, errors, highest, running, waiting, memory } = this._last(keyOf(name, entry.version));
    const calls = running === undefined ? null : running + waiting;
    const figures = [shown(requests, number), shown(errors, number), shown(highest, seconds), shown(calls, number), shown(memory, bytes)];
    figures.forEach((text, index) => (cells[index + 1].textContent = text));
    buttons.forEach((control, index) => {
      control.hidden = (index === 0) === versions.some((each) => each.state === "READY"); // the first one loads
      control.disabled = isLost || this._working.has(name);
    });
  }

  /** Load or unload all versions of a model. */
  async _change(name, word) {
    const action = word === "Unload" ? "unload" : "load";
    if (action === "unload" && !confirm(`Unload ${name}? Calls fail until it is loaded again.`)) return;
    this._working.set(name, `${action}ing`);
    this._faults.delete(name);
    this.draw();
    const error = await this._server.client._json("POST", `${pathOf(name).replace("/v2/", "/v2/repository/")}/${action}`, {}).catch((failure) => failure);
    this._working.delete(name);
    await this._server.refresh();
    if (error instanceof Error && !this._server.models.some((each) => each.name === name && each.reason)) this._faults.set(name, error.message);
    announce(error instanceof Error ? `${word} of ${name} failed` : `${name}: ${action}ed`);
    this.draw();
    if (document.activeElement === document.body) this.element.querySelector(`button[aria-label$="${CSS.escape(` ${name}`)}"]:not([hidden])`)?.focus();
  }
}

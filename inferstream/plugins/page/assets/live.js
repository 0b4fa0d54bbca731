// The live view: charts of the last minutes for the server or a model, the states of all models, and the rest of the limits of the key.

import { h, icon, newId } from "./dom.js";
import { KeyUsage } from "./keys.js";
import { LineChart, bytes, number, percent, seconds } from "./linechart.js";
import { pointOf, sampleOf } from "./rates.js";
import { ModelStates } from "./states.js";

const PERIOD = 2000;
const SPAN = 300_000;
const GAP = 3 * PERIOD;
/** The samples that a rate or a quantile covers. */
const MAX_SAMPLES = 6;

/** The charts. The first ones are also shown without numbers. */
const CHARTS = [
  ["Requests per second", [["requests", "finished"], ["errors", "with errors"]], number],
  ["Latency (estimated)", [["median", "p50"], ["highest", "p99"]], seconds],
  ["Calls in progress", [["running", "running"], ["waiting", "waiting"], ["streaming", "of streaming models"]], number],
  ["Error responses per second", [["clientErrors", "4xx: rejected"], ["serverErrors", "5xx: failed"]], number],
  ["Stream output per second", [["items", "items"], ["tokens", "tokens of finished calls"]], number],
  ["Time to first item (estimated)", [["firstMedian", "p50"], ["firstHighest", "p99"]], seconds],
  ["Batch size", [["size", "mean"]], number],
  ["Cache", [["hits", "response cache hits"], ["cache", "KV cache in use"]], percent],
  ["Memory", [["memory", "in use"], ["workersMemory", "workers"]], bytes],
  ["Worker processes", [["workers", "running"]], number],
];
const ALWAYS = 3;

/** `<server-view>` shows the server while it is open. */
class ServerView extends HTMLElement {
  show(server) {
    this._server = server;
    this._samples = [];
    this._points = new Map();
    this._select = h("select", { id: newId("of"), class: "versions", onchange: () => this._draw() });
    this._fault = h("div", { role: "status" });
    this._charts = CHARTS.map((each) => new LineChart(...each, SPAN, GAP));
    this._limits = h("p", { class: "quiet" });
    this._states = new ModelStates(server, (key) => this._points.get(key)?.findLast(({ time }) => time === this._samples.at(-1)?.time) ?? {}, (key) => this._samples.at(-1)?.failures.get(key));
    this._keys = new KeyUsage(server);
    const head = h("div", { class: "card-head" }, h("h2", {}, "Last 5 minutes"), h("div", { class: "field inline" }, h("label", { for: this._select.id }, "Show"), this._select));
    this._activity = h("section", { class: "card" }, head, h("div", { class: "charts" }, this._charts.map(({ element }) => element)));
    this.replaceChildren(h("header", { class: "model-head" }, h("h1", { tabindex: -1 }, "Server"), this._limits, this._fault), this._activity, this._states.element, this._keys.element);
    server.addEventListener("models", () => this._states.draw());
    server.addEventListener("tick", () => this.poll());
    document.addEventListener("visibilitychange", () => this.poll());
    this._draw();
  }

  /** Poll now, and then every two seconds while the view is visible. A key that was refused is not sent again. */
  async poll() {
    const { key } = this._server;
    clearTimeout(this._timer);
    if (this.hidden || document.hidden || this._polling || this._refused === key) return;
    const pause = (this._next ?? 0) - performance.now();
    if (pause > 0) {
      this._timer = setTimeout(() => this.poll(), pause);
      return;
    }
    this._next = performance.now() + PERIOD;
    this._polling = true;
    try {
      this._take(sampleOf(await this._server.json("/page/live"), Date.now()));
      this._explain("");
      if (key) await this._keys.look();
      this._drawLimits(key ? await this._server.json("/page/limits") : {});
    } catch (error) {
      if (error.status) this._refused = key;
      this._explain(reasonOf(error, key), error.status);
    }
    this._polling = false;
    this.poll();
  }

  _take(sample) {
    const last = this._samples.at(-1);
    // A front end that starts or does not respond would look like a change of all counters.
    const goesOn = last && last.processes === sample.processes && sample.time - last.time <= GAP;
    this._samples = [...(goesOn ? this._samples : []), sample].slice(-MAX_SAMPLES);
    for (const key of sample.sums.keys()) {
      const points = (this._points.get(key) ?? []).filter(({ time }) => time > sample.time - SPAN);
      this._points.set(key, [...points, pointOf(goesOn ? this._samples[0] : null, sample, key)]);
    }
    this._draw();
  }

  _draw() {
    this._states.draw();
    this._drawChoices(this._server.models.map(({ name }) => name));
    const points = this._points.get(this._select.value) ?? [];
    this._charts.forEach((chart, index) => {
      chart.element.hidden = index >= ALWAYS && !points.some((point) => chart.lines.some(([key]) => (point[key] ?? null) !== null));
      chart.draw(points, this._samples.at(-1)?.time ?? Date.now());
    });
  }

  _drawChoices(names) {
    const { value, options } = this._select;
    if (options.length === names.length + 1 && names.every((name, index) => options[index + 1].value === name)) return;
    this._select.replaceChildren(h("option", { value: "" }, "all models"), ...names.map((name) => h("option", { value: name }, name)));
    this._select.value = names.includes(value) ? value : "";
  }

  _explain(message, status = 0) {
    this._activity.hidden = status > 0;
    if (message === this._fault.textContent) return;
    const button = [401, 403].includes(status) ? h("button", { type: "button", class: "small", onclick: () => this._server.ask("") }, icon("key"), "Set a key") : null;
    this._fault.replaceChildren(...(message ? [h("div", { class: "error" }, h("p", {}, message), button)] : []));
  }

  _drawLimits(found) {
    const left = ["requests", "tokens"].filter((what) => `x-ratelimit-limit-${what}` in found).map((what) => `${found[`x-ratelimit-remaining-${what}`]} of ${found[`x-ratelimit-limit-${what}`]} ${what}`);
    this._limits.textContent = left.length ? `Left of the limits of your key: ${left.join(", ")}.` : "";
  }
}

/** Why there are no metrics, and how to get them. */
function reasonOf(error, key) {
  const reasons = {
    0: "The server cannot be reached. The numbers are from before.",
    401: key ? "The server does not accept this key." : "The server needs a key. For the charts, it needs the scope metrics.",
    403: "This key lacks the scope metrics, which the charts need.",
    404: "The metrics of this server are off. To turn them on, set metrics_endpoint.",
  };
  return reasons[error.status] ?? error.message;
}

customElements.define("server-view", ServerView);

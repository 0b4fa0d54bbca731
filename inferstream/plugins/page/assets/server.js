// The server of this page: its models, their metadata, and the key that calls are sent with.

import { Client, InferstreamError } from "../inferstream.js";

/** The URL of the server, with its path prefix. */
export const ROOT = new URL("..", import.meta.url).href.replace(/\/$/, "");

const PAUSE = 5000;

/** The path of a model, whose name can contain slashes. */
export function pathOf(name, version) {
  const path = `/v2/models/${encodeURIComponent(name).replaceAll("%2F", "/")}`;
  return version ? `${path}/versions/${encodeURIComponent(version)}` : path;
}

/** Events: `models` if their list or states change, `tick` after each poll, `refused` if a key is needed. */
export class Server extends EventTarget {
  client = new Client();
  models = [];
  reachable = null;
  /** Whether the list of models is complete, with models that failed or are loading. */
  complete = false;
  ready = true;
  key = null;
  /** Why the key, or a call without one, was refused; empty after a successful call. */
  refusal = "";
  /** Whether the user may load and unload models. */
  mayLoad = false;
  /** Whether the server closes the list of models with their states, so that the page does not request it. */
  closed = document.querySelector("server-page").hasAttribute("closed");
  about = { name: "inferstream", version: "" };

  /** Send a header with all calls. It is only kept in the memory of this page. */
  useKey(header, value) {
    this.key = value ? { header, value } : null;
    this.client.headers = this.key ? { [header]: value } : {};
    this.dispatchEvent(new Event("key"));
    this._asked = false;
  }

  /** A WebSocket. It cannot have headers, so its key is a second subprotocol. */
  socket(url) {
    const key = this.key?.value.replace(/^bearer +/i, "");
    return new WebSocket(url.replace(/^http/, "ws"), key ? ["inferstream", `inferstream.key.${key}`] : []);
  }

  /** The document at a path. */
  json(path) {
    return this.client._json("GET", path);
  }

  /** Everything that the page shows of a model. */
  async describe(name, version) {
    const path = `${pathOf(name, version)}/docs/dataplane.json`;
    const [metadata, document] = await Promise.all([this.client.metadata(name, { version }), this.json(path)]);
    const facts = document.info["x-model"] ?? {};
    const inputs = metadata.inputs ?? [];
    return {
      name,
      version: version ?? "",
      platform: metadata.platform ?? "",
      inputs,
      outputs: metadata.outputs ?? [],
      description: document.info.description ?? "",
      predicts: facts.predict ?? true,
      streams: facts.streams ?? false,
      texts: facts.text ?? false,
      calls: facts.calls ?? {},
      examples: facts.examples ?? [],
      strict: facts.function ?? false,
      grpcPort: document.info["x-server"]?.grpc_port ?? 8081,
      // Arguments are sent by name if each is one value. Other models get V2 tensors.
      feeds: inputs.find(({ parameters }) => parameters?.stream) ?? null,
      flat: facts.function || (inputs.length > 0 && inputs.every(isSingle)),
    };
  }

  /** Refresh now, and repeatedly while the page is visible. */
  watch() {
    const look = () => document.visibilityState === "visible" && this.refresh();
    setInterval(look, PAUSE);
    addEventListener("focus", look);
    document.addEventListener("visibilitychange", look);
    return this.refresh();
  }

  async refresh() {
    const { key } = this;
    let changed;
    try {
      if (this.reachable !== true) await this._glance();
      const index = this.closed ? null : await this._index();
      const found = index === null ? await this._loaded() : grouped(index);
      this.ready = index !== null || (await this.client.ready());
      this.mayLoad = index !== null;
      this.refusal = "";
      this.complete = true;
      changed = this._note(true, found);
    } catch (error) {
      if (key === this.key) {
        if (error.status === 401) this.refusal = key ? "The server does not accept this key." : "This server needs a key.";
        if (error.status === 401 && !this._asked) this.ask(this.refusal);
        this._asked = true; // once for each key; the button in the bar opens the dialog again
      }
      changed = this._note(error.status > 0, this.models);
    }
    this.dispatchEvent(new CustomEvent("tick", { detail: { changed } }));
  }

  /** Get the names of the loaded models, because the index of all models may take a second. */
  async _glance() {
    const [about, models] = await Promise.all([this.json("/v2"), this._loaded()]);
    this.about = about;
    if (!this.complete) this._note(true, models);
  }

  async _loaded() {
    const { models } = await this.json("/v2/models");
    return grouped(models.map((name) => ({ name, state: "READY" })));
  }

  /** All versions with their states; null if the user may not list them. */
  _index() {
    return this.client._json("POST", "/v2/repository/index", {}).catch((error) => {
      if (![403, 404, 501].includes(error.status)) throw error;
      return null;
    });
  }

  /** Ask for a key, because of this error. */
  refuse(error) {
    this.ask(error.status === 401 && this.refusal ? this.refusal : error.message);
  }

  ask(message) {
    this.dispatchEvent(new CustomEvent("refused", { detail: message }));
  }

  _note(reachable, models) {
    this.reachable = reachable;
    this.models = models;
    const known = JSON.stringify([reachable, this.complete, this.ready, this.refusal, this.mayLoad, models]);
    const changed = known !== this._known;
    this._known = known;
    if (changed) this.dispatchEvent(new Event("models"));
    return changed;
  }
}

export const isSingle = (tensor) => tensor.shape.every((size) => size === 1) && !isDocument(tensor);

/** Whether a tensor is declared as JSON text. */
export const isDocument = (tensor) => ["json", "pd_json"].includes(contentOf(tensor));

export const contentOf = (tensor) => tensor.parameters?.content_type ?? "";

/** Models by name, each with its versions. A model has the state of its best version. */
function grouped(items) {
  const models = new Map();
  for (const { name, version, state, reason } of items) {
    const model = models.get(name) ?? { name, versions: [] };
    model.versions.push({ version: version ?? "", state, reason: reason ?? "" });
    models.set(name, model);
  }
  for (const model of models.values()) {
    const best = ["READY", "LOADING"].map((state) => model.versions.find((each) => each.state === state));
    ({ state: model.state, reason: model.reason } = best.find(Boolean) ?? model.versions[0]);
  }
  const order = new Intl.Collator(undefined, { numeric: true });
  for (const model of models.values()) model.versions.sort((one, other) => order.compare(one.version, other.version));
  return [...models.values()].sort((one, other) => order.compare(one.name, other.name));
}

export { InferstreamError };

// The JavaScript client of inferstream, for browsers and Node from version 18.

/** A failed call. `status` is the HTTP status; 0 without a response. `code` is the server's, where it sends one. */
export class InferstreamError extends Error {
  constructor(message, { status = 0, code = "", id = "", retryAfter = null, cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = "InferstreamError";
    this.status = status;
    this.code = code;
    this.id = id;
    this.retryAfter = retryAfter;
  }
}

const RESUME = { attempts: 10, firstPause: 250, longestPause: 5000 };
const TRANSIENT = new Set([429, 502, 503, 504]);

/** The models of one server. An empty `baseUrl` is the server that served this file. */
export class Client {
  constructor(baseUrl = "", { headers = {}, fetch = globalThis.fetch } = {}) {
    this.baseUrl = (baseUrl || ownServer()).replace(/\/+$/, "");
    this.headers = headers;
    // Browsers refuse to call `fetch` as a method of another object.
    this._fetch = (...args) => fetch(...args);
  }

  /** Every model with its name, version and state. */
  async models({ signal } = {}) {
    try {
      return await this._json("POST", "/v2/repository/index", {}, { signal });
    } catch (error) {
      if (!(error instanceof InferstreamError) || ![403, 404, 501].includes(error.status)) throw error;
    }
    // The repository is closed beyond loopback. The names are not.
    const { models } = await this._json("GET", "/v2/models", undefined, { signal });
    return Promise.all(
      models.map(async (name) => {
        const ready = await this.ready(name, { signal });
        return { name, version: "", state: ready ? "READY" : "UNAVAILABLE", reason: "" };
      }),
    );
  }

  /** What the server says of a model. */
  metadata(model, { version, signal } = {}) {
    return this._json("GET", pathOf(model, version), undefined, { signal });
  }

  /** Whether a model is ready, or the server where no model is given. */
  async ready(model, { version, signal } = {}) {
    const path = model === undefined ? "/v2/health/ready" : `${pathOf(model, version)}/ready`;
    try {
      await this._json("GET", path, undefined, { signal });
      return true;
    } catch (error) {
      if (error instanceof InferstreamError && error.status >= 400) return false;
      throw error;
    }
  }

  /** One response to a V2 request. `data` of a tensor may be a typed array. */
  infer(model, request, { version, ...options } = {}) {
    const inputs = request.inputs?.map((tensor) => ({ ...tensor, data: tensorData(tensor.data) }));
    return this._json("POST", `${pathOf(model, version)}/infer`, inputs ? { ...request, inputs } : request, options);
  }

  /** One response to arguments by name. Blobs and bytes become base64. */
  async generate(model, args, { version, ...options } = {}) {
    return this._json("POST", `${pathOf(model, version)}/generate`, await plainArguments(args), options);
  }

  /** The responses to arguments by name, or to a V2 request, each as it arrives. */
  stream(model, args, { version, ...options } = {}) {
    return new Stream(this, `${pathOf(model, version)}/generate_stream`, args, options);
  }

  /** The URL of the same stream for an `EventSource`. */
  streamUrl(model, args = {}, { version } = {}) {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(args)) {
      if (value === undefined || value === null) continue;
      for (const each of Array.isArray(value) ? value : [value]) query.append(name, String(each));
    }
    const text = query.toString();
    return `${this.baseUrl}${pathOf(model, version)}/generate_stream${text && `?${text}`}`;
  }

  /** OpenAI's chunks of one chat completion. Options other than these three are fields of the request. */
  async *chat(model, messages, { signal, headers, ...body } = {}) {
    const request = { ...body, model, messages, stream: true };
    const response = await this._send("POST", "/v1/chat/completions", request, { signal, headers, events: true });
    for await (const event of eventsOf(response, signal)) {
      if (event.data === "[DONE]") return;
      const chunk = parsed(event.data);
      if (event.event === "error" || chunk?.error !== undefined) throw failureOf(chunk, response.status);
      yield chunk;
    }
  }

  /** End the requests with this id. Returns how many there were. */
  async cancel(id, { signal } = {}) {
    const { cancelled } = await this._json("DELETE", `/v2/requests/${encodeURIComponent(id)}`, undefined, { signal });
    return cancelled;
  }

  async _json(method, path, body, options) {
    const response = await this._send(method, path, body, options);
    try {
      return await response.json();
    } catch (error) {
      throw lost(error, options?.signal, "the response is not complete");
    }
  }

  /** The response to one request, if it is a success. */
  async _send(method, path, body, { signal, headers, events = false, keepalive = false } = {}) {
    const init = {
      method,
      signal,
      keepalive,
      headers: { accept: events ? "text/event-stream" : "application/json", ...this.headers, ...headers },
    };
    if (body !== undefined) {
      init.headers["content-type"] = "application/json";
      init.body = JSON.stringify(body);
    }
    let response;
    try {
      response = await this._fetch(this.baseUrl + path, init);
    } catch (error) {
      throw lost(error, signal, `no response from ${this.baseUrl || "the server"}`);
    }
    if (response.ok) return response;
    throw await refusalOf(response);
  }
}

/** One stream of responses. Iterate it once; leaving the loop ends the call on the server. */
export class Stream {
  constructor(client, path, args, { signal, resume = false, lastEventId = "", headers } = {}) {
    this.lastEventId = lastEventId;
    /** How often the stream has been resumed. */
    this.resumed = 0;
    this._client = client;
    this._path = path;
    this._args = args;
    this._headers = headers;
    this._resume = resume || lastEventId ? { ...RESUME, ...(typeof resume === "object" ? resume : {}) } : null;
    this._leaving = new AbortController();
    this._signal = signal;
    this._items = null;
  }

  /** End the stream. The model's `finally` runs. */
  cancel() {
    if (this._leaving.signal.aborted) return;
    this._leaving.abort();
    this._release();
  }

  [Symbol.asyncIterator]() {
    if (this._items !== null) throw new InferstreamError("A stream is read once.");
    this._items = this._read();
    return this._items;
  }

  async *_read() {
    const forward = () => this._leaving.abort(this._signal.reason);
    if (this._signal?.aborted) forward();
    else this._signal?.addEventListener("abort", forward, { once: true });
    let ended = false;
    try {
      for await (const item of this._resume === null ? this._once() : this._resuming()) yield item;
      ended = true;
    } catch (error) {
      ended = error instanceof InferstreamError;
      if (this._leaving.signal.aborted && !this._signal?.aborted) return; // `cancel` is no failure
      throw error;
    } finally {
      this._signal?.removeEventListener("abort", forward);
      if (!ended) {
        const told = this._leaving.signal.aborted && !this._signal?.aborted;
        this._leaving.abort();
        if (!told) this._release();
      }
    }
  }

  /** Tell the server that nobody resumes this stream. It would wait for a while. */
  _release() {
    if (!this.lastEventId) return; // only streams that may be resumed have ids
    const headers = { ...this._headers, "last-event-id": this.lastEventId };
    this._client
      ._send("DELETE", this._path, undefined, { headers, keepalive: true })
      .catch(() => {}); // the server ends the stream by itself, later
  }

  async *_once() {
    const response = await this._open({});
    for await (const event of eventsOf(response, this._leaving.signal)) {
      if (event.retry !== undefined) continue;
      const item = this._itemOf(event, response.status);
      if (item === null) return;
      if (item !== undefined) yield item;
    }
    if (this.lastEventId) throw cutOff(); // its server makes all streams resumable
  }

  /** Items over any number of connections. Only the event `end`, or an error, ends the stream. */
  async *_resuming() {
    const { attempts, firstPause, longestPause } = this._resume;
    let failed = 0;
    let pause = firstPause;
    for (;;) {
      try {
        const response = await this._open({ prefer: "resumable" });
        if (response.status === 204) return;
        const applied = response.headers.get("preference-applied");
        for await (const event of eventsOf(response, this._leaving.signal)) {
          if (event.retry !== undefined) {
            pause = event.retry;
            continue;
          }
          failed = 0;
          const item = this._itemOf(event, response.status);
          if (item === null) return;
          if (item !== undefined) yield item;
        }
        // A server that does not resume streams ends one by ending the response.
        if (!this.lastEventId && applied === null) return;
        throw cutOff();
      } catch (error) {
        if (!(error instanceof InferstreamError) || this._leaving.signal.aborted) throw error;
        const transient = error.status === 0 ? error.code === "" : TRANSIENT.has(error.status) && !error.inBand;
        if (!transient || !this.lastEventId || ++failed > attempts) throw error;
        const doubled = Math.min(pause * 2 ** (failed - 1), Math.max(longestPause, pause));
        const wait = Math.max((error.retryAfter ?? 0) * 1000, doubled * (0.5 + Math.random() / 2));
        await sleep(failed === 1 && error.status === 0 ? 0 : wait, this._leaving.signal);
        this.resumed += 1;
      }
    }
  }

  async _open(headers) {
    const options = { signal: this._leaving.signal, events: true };
    if (this.lastEventId) {
      // GET without a query resumes, and never runs the model.
      options.headers = { ...headers, ...this._headers, "last-event-id": this.lastEventId };
      return this._client._send("GET", this._path, undefined, options);
    }
    options.headers = { ...headers, ...this._headers };
    return this._client._send("POST", this._path, await plainArguments(this._args), options);
  }

  /** The item of an event; undefined without one, null at the end of the stream. */
  _itemOf(event, status) {
    if (event.id !== null) this.lastEventId = event.id;
    if (event.data === null) return undefined;
    if (event.event === "end" && event.id !== null) return null;
    const data = parsed(event.data);
    // Triton's errors in a stream have no type of their own.
    const failed = typeof data?.error === "string" && data.model_name === undefined;
    if (failed && (event.event === "error" || event.event === "message")) throw failureOf(data, status);
    return { data, event: event.event, id: this.lastEventId };
  }
}

const cutOff = () => new InferstreamError("The connection was lost before the end of the stream.");

/** The bytes of one output, which JSON holds as base64, with the media type that the model gave them. */
export function blobOf(response, output = "output") {
  const type = response.media_type ?? response.parameters?.media_type ?? "application/octet-stream";
  const found = Array.isArray(response.outputs)
    ? response.outputs.find((tensor) => tensor.name === output)?.data[0]
    : response[output];
  if (typeof found !== "string") throw new InferstreamError(`The response has no bytes in "${output}".`);
  return new Blob([bytesOf(found)], { type });
}

/**
 * Server-sent events of a response, as HTML defines them.
 *
 * An event is `{event, data, id}`; `data` is null where there is none, `id` where the event has none of its own.
 * `{retry}` stands alone. An event that is cut off is left out. Raises InferstreamError if the connection is lost.
 */
export async function* eventsOf(response, signal) {
  if (response.body === null) return;
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  let event = empty();
  try {
    for (;;) {
      let read;
      try {
        read = await reader.read();
      } catch (error) {
        throw lost(error, signal, "the connection was lost");
      }
      if (read.done) return;
      rest += decoder.decode(read.value, { stream: true });
      let from = 0;
      for (;;) {
        const end = endOfLine(rest, from);
        if (end === null) break;
        const line = rest.slice(from, end.at);
        from = end.next;
        if (line !== "") {
          const retry = readLine(event, line);
          if (retry !== null) yield { retry };
        } else {
          if (event.data !== null || event.id !== null) yield event;
          event = empty();
        }
      }
      rest = rest.slice(from);
    }
  } finally {
    reader.cancel().catch(() => {}); // it has failed already
  }
}

const empty = () => ({ event: "message", data: null, id: null });

/** Where a line ends and the next begins; null for a line that may go on. A CR at the end may be half of CR LF. */
function endOfLine(text, from) {
  for (let at = from; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === 10) return { at, next: at + 1 };
    if (code === 13) {
      if (at + 1 === text.length) return null;
      return { at, next: text.charCodeAt(at + 1) === 10 ? at + 2 : at + 1 };
    }
  }
  return null;
}

/** Put a line into its event. Returns the pause of a `retry`, else null. */
function readLine(event, line) {
  const colon = line.indexOf(":");
  if (colon === 0) return null; // a comment
  const field = colon < 0 ? line : line.slice(0, colon);
  const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
  if (field === "data") event.data = event.data === null ? value : `${event.data}\n${value}`;
  else if (field === "event") event.event = value || "message";
  else if (field === "id" && !value.includes("\0")) event.id = value;
  else if (field === "retry" && /^\d+$/.test(value)) return Number(value);
  return null;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** The error in an event, or in the document of a response. OpenAI's is an object. */
function failureOf(document, status, retryAfter = null) {
  const found = document?.error ?? document?.detail ?? document;
  const message = typeof found === "string" ? found : (found?.message ?? JSON.stringify(found));
  const code = document?.code ?? found?.code ?? found?.type ?? "";
  const error = new InferstreamError(message, { status, code: String(code), id: document?.id ?? "", retryAfter });
  // An error after the head of its response has no status of its own.
  error.inBand = status === 200;
  if (error.inBand) error.status = IN_BAND[error.code] ?? 500;
  return error;
}

const IN_BAND = {
  invalid: 400,
  not_found: 404,
  permission_denied: 403,
  overloaded: 429,
  limit_exceeded: 429,
  rate_limit_exceeded: 429,
  cancelled: 499,
  unsupported: 501,
  not_ready: 503,
  draining: 503,
  worker_lost: 503,
  out_of_memory: 503,
  deadline_exceeded: 504,
};

async function refusalOf(response) {
  let text = "";
  try {
    text = await response.text();
  } catch {
    // The status says enough.
  }
  const seconds = Number(response.headers.get("retry-after") ?? NaN);
  const document = parsed(text) || { error: `${response.status} ${response.statusText}` };
  return failureOf(document, response.status, Number.isFinite(seconds) ? seconds : null);
}

/** An abort by the caller stays what it is; any other failure of a connection is ours. */
function lost(error, signal, message) {
  if (signal?.aborted) return signal.reason ?? error;
  return new InferstreamError(`${message}: ${error?.cause?.message ?? error?.message ?? error}`, { cause: error });
}

function sleep(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", abort);
      resolve();
    }, milliseconds);
    if (signal.aborted) abort();
    else signal.addEventListener("abort", abort, { once: true });
  });
}

function pathOf(model, version) {
  const name = encodeURIComponent(model).replaceAll("%2F", "/");
  return `/v2/models/${name}${version ? `/versions/${encodeURIComponent(version)}` : ""}`;
}

/** The server that served this file, with the prefix below which it is mounted. */
function ownServer() {
  const here = new URL(import.meta.url);
  if (here.protocol.startsWith("http") && here.pathname.endsWith("/inferstream.js")) {
    return here.origin + here.pathname.slice(0, -"/inferstream.js".length);
  }
  if (globalThis.location !== undefined) return globalThis.location.origin;
  throw new InferstreamError("Give the URL of the server: new Client(\"http://127.0.0.1:8080\").");
}

/** Tensor values as JSON holds them. */
function tensorData(data) {
  if (data instanceof BigInt64Array || data instanceof BigUint64Array) return Array.from(data, wholeNumber);
  if (ArrayBuffer.isView(data) && !(data instanceof DataView)) return Array.from(data);
  return data;
}

function wholeNumber(value) {
  const number = Number(value);
  if (!Number.isSafeInteger(number)) throw new InferstreamError(`${value} is too large for a number of JSON`);
  return number;
}

/** Arguments as JSON holds them: a blob, a buffer or bytes as base64. */
async function plainArguments(args) {
  if (args === null || typeof args !== "object" || Array.isArray(args)) return args;
  const entries = Object.entries(args).map(async ([name, value]) => [name, await plainValue(value)]);
  return Object.fromEntries(await Promise.all(entries));
}

async function plainValue(value) {
  if (typeof Blob !== "undefined" && value instanceof Blob) return base64(new Uint8Array(await value.arrayBuffer()));
  if (value instanceof ArrayBuffer) return base64(new Uint8Array(value));
  if (value instanceof Uint8Array) return base64(value);
  if (ArrayBuffer.isView(value)) return tensorData(value);
  return value;
}

function base64(bytes) {
  const pieces = [];
  for (let at = 0; at < bytes.length; at += 0x8000) {
    pieces.push(String.fromCharCode(...bytes.subarray(at, at + 0x8000)));
  }
  return btoa(pieces.join(""));
}

function bytesOf(text) {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

// The types of the JavaScript client of inferstream.

export type Json = string | number | boolean | null | Json[] | { [name: string]: Json };

/** A value of an argument. Blobs and bytes become base64. */
export type Argument = Json | Blob | ArrayBuffer | ArrayBufferView | undefined;

export interface InferstreamErrorOptions {
  status?: number;
  code?: string;
  id?: string;
  retryAfter?: number | null;
  cause?: unknown;
}

/** A failed call. `status` is the HTTP status; 0 without a response. `code` is the server's, where it sends one. */
export class InferstreamError extends Error {
  constructor(message: string, options?: InferstreamErrorOptions);
  readonly name: "InferstreamError";
  status: number;
  code: string;
  /** The id of the request, where the error names it. */
  id: string;
  /** Seconds after which another attempt may succeed. */
  retryAfter: number | null;
}

export interface Model {
  name: string;
  version: string;
  /** `READY`, `LOADING`, `UNAVAILABLE` and so on. */
  state: string;
  reason: string;
}

export interface MetadataTensor {
  name: string;
  datatype: string;
  shape: number[];
  parameters?: { [name: string]: Json };
}

export interface Metadata {
  name: string;
  versions: string[];
  platform: string;
  inputs: MetadataTensor[];
  outputs: MetadataTensor[];
  parameters?: { [name: string]: Json };
}

export type TensorValues =
  | Json[]
  | Int8Array
  | Uint8Array
  | Uint8ClampedArray
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | Float32Array
  | Float64Array
  | BigInt64Array
  | BigUint64Array;

export interface InputTensor {
  name: string;
  datatype: string;
  shape: number[];
  data: TensorValues;
  parameters?: { [name: string]: Json };
}

export interface InferenceRequest {
  id?: string;
  inputs: InputTensor[];
  outputs?: { name: string; parameters?: { [name: string]: Json } }[];
  parameters?: { [name: string]: Json };
}

export interface OutputTensor {
  name: string;
  datatype: string;
  shape: number[];
  data: Json[];
  parameters?: { [name: string]: Json };
}

export interface InferenceResponse {
  id?: string;
  model_name: string;
  model_version?: string;
  outputs: OutputTensor[];
  parameters?: { [name: string]: Json };
}

/** Outputs by name, beside `model_name` and `model_version`. */
export interface FlatResponse {
  [name: string]: Json;
}

/** One event of a stream. */
export interface Item<Data = FlatResponse> {
  data: Data;
  /** The name that the model gave the event; `message` without one. */
  event: string;
  /** Where to resume the stream; empty for a stream that is not resumable. */
  id: string;
}

export interface CallOptions {
  signal?: AbortSignal;
  headers?: { [name: string]: string };
}

export interface ModelOptions extends CallOptions {
  version?: string;
}

export interface Resuming {
  /** Attempts in a row that may fail. */
  attempts?: number;
  /** Milliseconds before the second attempt; they double with each further one. */
  firstPause?: number;
  longestPause?: number;
}

export interface StreamOptions extends ModelOptions {
  /** Ask for a resumable stream, and resume it after each lost connection. */
  resume?: boolean | Resuming;
  /** Resume a stream behind this event, of an earlier page for example. The arguments are not used. */
  lastEventId?: string;
}

/** One stream of responses. Iterate it once; leaving the loop ends the call on the server. */
export class Stream<Data = FlatResponse> implements AsyncIterable<Item<Data>> {
  private constructor();
  /** The id of the last event; `client.stream(..., {lastEventId})` goes on behind it. */
  lastEventId: string;
  /** How often the stream has been resumed. */
  resumed: number;
  /** End the stream. The model's `finally` runs. The loop that reads it ends without an error. */
  cancel(): void;
  [Symbol.asyncIterator](): AsyncGenerator<Item<Data>, void, undefined>;
}

export interface ChatMessage {
  role: string;
  content: Json;
  [field: string]: Json;
}

export interface ChatOptions extends CallOptions {
  /** Further fields of the request: `max_tokens`, `temperature` and so on. */
  [field: string]: unknown;
}

export interface ChatChunk {
  id: string;
  object: string;
  created: number;
  model: string;
  choices: { index: number; delta: { role?: string; content?: string | null }; finish_reason: string | null }[];
  usage?: { prompt_tokens: number; completion_tokens: number; total_tokens: number } | null;
  [field: string]: unknown;
}

export interface ClientOptions {
  /** Headers of every request. */
  headers?: { [name: string]: string };
  fetch?: typeof globalThis.fetch;
}

/** The models of one server. An empty `baseUrl` is the server that served this file. */
export class Client {
  constructor(baseUrl?: string, options?: ClientOptions);
  readonly baseUrl: string;
  headers: { [name: string]: string };
  /** Every model with its name, version and state. */
  models(options?: { signal?: AbortSignal }): Promise<Model[]>;
  /** What the server says of a model. */
  metadata(model: string, options?: { version?: string; signal?: AbortSignal }): Promise<Metadata>;
  /** Whether a model is ready, or the server where no model is given. */
  ready(model?: string, options?: { version?: string; signal?: AbortSignal }): Promise<boolean>;
  /** One response to a V2 request. */
  infer(model: string, request: InferenceRequest, options?: ModelOptions): Promise<InferenceResponse>;
  /** One response to arguments by name. */
  generate(model: string, args: { [name: string]: Argument }, options?: ModelOptions): Promise<FlatResponse>;
  /** The responses to arguments by name, or to a V2 request, each as it arrives. */
  stream(model: string, args: InferenceRequest, options?: StreamOptions): Stream<InferenceResponse>;
  stream(model: string, args: { [name: string]: Argument }, options?: StreamOptions): Stream;
  /** The URL of the same stream for an `EventSource`. */
  streamUrl(model: string, args?: { [name: string]: Argument }, options?: { version?: string }): string;
  /** OpenAI's chunks of one chat completion. */
  chat(model: string, messages: ChatMessage[], options?: ChatOptions): AsyncGenerator<ChatChunk, void, undefined>;
  /** End the requests with this id. Returns how many there were. */
  cancel(id: string, options?: { signal?: AbortSignal }): Promise<number>;
}

export interface ServerSentEvent {
  event: string;
  data: string | null;
  id: string | null;
  retry?: undefined;
}

/** Server-sent events of a response. `{retry}` stands alone. */
export function eventsOf(
  response: Response,
  signal?: AbortSignal,
): AsyncGenerator<ServerSentEvent | { retry: number }, void, undefined>;

/** The bytes of one output, which JSON holds as base64, with the media type that the model gave them. */
export function blobOf(response: FlatResponse | InferenceResponse, output?: string): Blob;

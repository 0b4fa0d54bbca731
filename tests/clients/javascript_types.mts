// What a user of the JavaScript client writes; it must pass `tsc --strict`.
import { Client, InferstreamError, blobOf, eventsOf } from "../../inferstream/plugins/page/client/inferstream.js";

const client = new Client("http://127.0.0.1:8080", { headers: { authorization: "Bearer key" } });
const leaving = new AbortController();

for (const { name, version, state } of await client.models()) console.log(name, version, state);
const shape: number[] = (await client.metadata("words", { version: "1" })).inputs[0].shape;
const sum: unknown = (await client.generate("add", { a: 41, image: new Blob([]), of: shape })).output;
const answer = await client.infer("double", {
  inputs: [{ name: "values", datatype: "FP64", shape: [1], data: new Float64Array([1]) }],
});
console.log(sum, answer.outputs[0].data);

const stream = client.stream("words", { prompt: "a b" }, { resume: true, signal: leaving.signal });
for await (const { data, event, id } of stream) console.log(data.output, event.length, id.length);
const tensors = client.stream("words", { inputs: [] }, { lastEventId: stream.lastEventId });
for await (const { data } of tensors) console.log(data.outputs[0].datatype);
for await (const chunk of client.chat("words", [{ role: "user", content: "hi" }], { max_tokens: 3 })) {
  console.log(chunk.choices[0].delta.content);
}
const source = new EventSource(client.streamUrl("words", { prompt: "a" }));
source.close();
const cancelled: number = await client.cancel("7");
for await (const event of eventsOf(new Response())) {
  if (event.retry === undefined) console.log(event.data, event.id);
}
const kind: string = blobOf({ output: "", media_type: "image/png" }).type + blobOf(answer, "y").size;
try {
  // @ts-expect-error: a model has a name
  await client.generate(7, {});
  // @ts-expect-error: there is no such option
  client.stream("words", {}, { resumes: true });
} catch (error) {
  if (error instanceof InferstreamError) console.log(error.status, error.retryAfter, cancelled, kind);
}

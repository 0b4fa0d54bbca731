// Tests of the JavaScript client against a running server, whose URL is in SERVER.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, InferstreamError, blobOf, eventsOf } from "../../inferstream/javascript/inferstream.js";

const client = new Client(process.env.SERVER);

async function gathered(stream) {
  const items = [];
  for await (const item of stream) items.push(item);
  return items;
}

function responseOf(...chunks) {
  const encoder = new TextEncoder();
  return new Response(
    new ReadableStream({
      start(controller) {
        for (const chunk of chunks) controller.enqueue(typeof chunk === "string" ? encoder.encode(chunk) : chunk);
        controller.close();
      },
    }),
  );
}

test("models", async () => {
  const models = await client.models();
  const words = models.find((model) => model.name === "words");
  assert.equal(words.state, "READY");
});

test("models of a closed repository", async () => {
  const closed = new Client(process.env.SERVER, {
    fetch: (url, init) =>
      url.endsWith("/repository/index")
        ? new Response('{"error":"The repository API is closed."}', { status: 403 })
        : fetch(url, init),
  });
  const models = await closed.models();
  assert.deepEqual(
    models.find((model) => model.name === "words"),
    { name: "words", version: "", state: "READY", reason: "" },
  );
});

test("metadata and readiness", async () => {
  const found = await client.metadata("words");
  assert.equal(found.name, "words");
  assert.deepEqual(
    found.inputs.map((tensor) => tensor.name),
    ["prompt", "pause"],
  );
  assert.equal(await client.ready("words"), true);
  assert.equal(await client.ready("nobody"), false);
  assert.equal(await client.ready(), true);
});

test("infer with a typed array", async () => {
  const response = await client.infer("double", {
    inputs: [{ name: "values", datatype: "FP64", shape: [3], data: new Float64Array([1, 2, 3.5]) }],
  });
  assert.deepEqual(response.outputs[0].data, [2, 4, 7]);
});

test("generate", async () => {
  assert.equal((await client.generate("add", { a: 41 })).output, 42);
  assert.equal((await client.generate("size", { data: new Blob(["grüße"]) })).output, 7);
  assert.equal((await client.generate("size", { data: new Uint8Array(100000) })).output, 100000);
});

test("an error", async () => {
  await assert.rejects(client.generate("nobody", {}), (error) => {
    assert.ok(error instanceof InferstreamError);
    assert.equal(error.status, 404);
    assert.match(error.message, /Model nobody not found/);
    return true;
  });
  await assert.rejects(client.infer("add", { inputs: [] }), { name: "InferstreamError", status: 400 });
  const nowhere = new Client("http://127.0.0.1:1");
  await assert.rejects(nowhere.generate("add", { a: 1 }), { name: "InferstreamError", status: 0 });
});

test("a stream", async () => {
  const items = await gathered(client.stream("words", { prompt: "grüße to  you" }));
  assert.equal(items.map((item) => item.data.output).join(""), "grüße to you ");
  assert.ok(items.every((item) => item.event === "message" && item.id === ""));
});

test("a stream of V2", async () => {
  const prompt = { name: "prompt", datatype: "BYTES", shape: [1], data: ["a b"] };
  const items = await gathered(client.stream("words", { id: "7", inputs: [prompt] }));
  assert.deepEqual(
    items.map((item) => [item.data.id, item.data.outputs[0].data[0]]),
    [
      ["7", "a "],
      ["7", "b "],
    ],
  );
});

test("an error within a stream", async () => {
  const items = [];
  await assert.rejects(
    async () => {
      for await (const item of client.stream("breaks", { after: 2 })) items.push(item.data.output);
    },
    { name: "InferstreamError", status: 500 },
  );
  assert.deepEqual(items, [0, 1]);
});

test("leaving a stream ends the model", async () => {
  for await (const item of client.stream("endless", { key: "left" })) {
    if (item.data.output === 3) break;
  }
  await ended("left");
});

test("cancel ends a stream without an error", async () => {
  const stream = client.stream("endless", { key: "cancelled" });
  for await (const item of stream) if (item.data.output === 3) stream.cancel();
  await ended("cancelled");
});

test("a signal ends a stream with its reason", async () => {
  const leaving = new AbortController();
  await assert.rejects(
    async () => {
      for await (const item of client.stream("endless", { key: "aborted" }, { signal: leaving.signal })) {
        if (item.data.output === 3) leaving.abort();
      }
    },
    { name: "AbortError" },
  );
  await ended("aborted");
});

test("a chat", async () => {
  let text = "";
  for await (const chunk of client.chat("words", [{ role: "user", content: "a b" }])) {
    text += chunk.choices[0]?.delta.content ?? "";
  }
  assert.match(text, /a b/);
  await assert.rejects(gathered(client.chat("nobody", [{ role: "user", content: "a" }])), { status: 404 });
});

test("a URL for EventSource", () => {
  const url = new URL(client.streamUrl("a/b c", { prompt: "what & why?", n: 2, of: [1, 2], not: null }, { version: "1" }));
  assert.equal(url.pathname, "/v2/models/a/b%20c/versions/1/generate_stream");
  assert.deepEqual([...url.searchParams], [["prompt", "what & why?"], ["n", "2"], ["of", "1"], ["of", "2"]]);
});

test("events arrive in any pieces", async () => {
  const text = ': hi\nid: 1\ndata: grüße\ndata:  two\n\nevent: x\r\ndata: "y"\r\n\r\nretry: 7\n\nid\n\ndata: cut off';
  const bytes = new TextEncoder().encode(text);
  const expected = [
    { event: "message", data: "grüße\n two", id: "1" },
    { event: "x", data: '"y"', id: null },
    { retry: 7 },
    { event: "message", data: null, id: "" },
  ];
  for (const size of [1, 2, 3, 7, 1000]) {
    const pieces = [];
    for (let at = 0; at < bytes.length; at += size) pieces.push(bytes.slice(at, at + size));
    assert.deepEqual(await gathered(eventsOf(responseOf(...pieces))), expected);
  }
});

test("the bytes of a media item", async () => {
  const blob = blobOf({ data: btoa("bytes"), media_type: "image/png" });
  assert.equal(blob.type, "image/png");
  assert.equal(await blob.text(), "bytes");
});

async function ended(key) {
  for (;;) {
    if ((await client.generate("ended", { key })).output) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

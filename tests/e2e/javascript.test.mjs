// Tests of the JavaScript client against two running servers, whose URLs are in SERVER and RESUMABLE.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, InferstreamError, blobOf, eventsOf } from "../../inferstream/plugins/page/client/inferstream.js";

const client = new Client(process.env.SERVER);
const resumable = new Client(process.env.RESUMABLE);

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
  const [{ data, event }] = await gathered(client.stream("frames", { count: 1 }));
  assert.equal(event, "frame");
  const blob = blobOf(data);
  assert.equal(blob.type, "image/jpeg");
  assert.deepEqual([...new Uint8Array(await blob.arrayBuffer())], [255, 216]);
  const tensor = { name: "image", datatype: "BYTES", shape: [1], data: [btoa("bytes")] };
  const whole = blobOf({ model_name: "m", outputs: [tensor], parameters: { media_type: "image/png" } }, "image");
  assert.equal(whole.type, "image/png");
  assert.equal(await whole.text(), "bytes");
  assert.throws(() => blobOf(data, "other"), InferstreamError);
});

test("events have names", async () => {
  const items = await gathered(client.stream("progress", { count: 1 }));
  assert.deepEqual(
    items.map(({ event, data }) => [event, data.done ?? data.output]),
    [["progress", 0], ["message", "0 "], ["progress", 1]],
  );
});

/** A `fetch` whose responses break off after so many bytes each, as those of a lost connection. */
function breaking(places) {
  return async (url, init) => {
    const response = await fetch(url, init);
    if (!places.length || init.method === "DELETE" || response.status !== 200) return response;
    let left = places.shift();
    const reader = response.body.getReader();
    const body = new ReadableStream({
      async pull(controller) {
        const { done, value } = await reader.read();
        if (done) return controller.close();
        if (value.length <= left) {
          left -= value.length;
          return controller.enqueue(value);
        }
        controller.enqueue(value.slice(0, left));
        await reader.cancel();
        controller.error(new TypeError("terminated"));
      },
    });
    return new Response(body, { status: 200, headers: response.headers });
  };
}

test("a stream is resumed wherever it is cut", async () => {
  const places = [200, 0, 37, 500, 1];
  const flaky = new Client(process.env.SERVER, { fetch: breaking(places) });
  const stream = flaky.stream("counting", { key: "resumed", until: 60 }, { resume: { firstPause: 10 } });
  const items = await gathered(stream);
  assert.deepEqual(items.map((item) => item.data.output), Array.from({ length: 60 }, (_, at) => at));
  assert.ok(stream.resumed >= 3, String(stream.resumed));
  assert.equal(places.length, 0);
  assert.equal((await client.generate("begun", { key: "resumed" })).output, 1);
});

test("a stream is resumed by another client, behind its last event", async () => {
  const first = client.stream("counting", { key: "moved", until: 10, pause: 0.02 }, { resume: true });
  let id;
  for await (const item of first) {
    id = item.id;
    if (item.data.output === 3) {
      first._release = () => {}; // as a page that is gone, which releases nothing
      break;
    }
  }
  const rest = await gathered(client.stream("counting", {}, { lastEventId: id }));
  assert.deepEqual(rest.map((item) => item.data.output), [4, 5, 6, 7, 8, 9]);
  const gone = id.replace(/^0\.[^:]+/, "0.unknown");
  await assert.rejects(gathered(client.stream("counting", {}, { lastEventId: gone })), { status: 410 });
});

test("leaving a resumable stream ends the model at once", async () => {
  for await (const item of client.stream("endless", { key: "released" }, { resume: true })) {
    if (item.data.output === 3) break;
  }
  await ended("released");
});

test("a lost connection is an error without `resume`, and after the last attempt", async () => {
  const lost = { name: "InferstreamError", status: 0 };
  const cut = new Client(process.env.SERVER, { fetch: breaking([100]) });
  await assert.rejects(gathered(cut.stream("counting", { key: "cut", until: 60 })), lost);
  let calls = 0;
  const down = new Client(process.env.SERVER, {
    fetch: (url, init) => (calls++ ? Promise.reject(new TypeError("fetch failed")) : breaking([100])(url, init)),
  });
  const stream = down.stream("counting", { key: "down", until: 60 }, { resume: { attempts: 3, firstPause: 1 } });
  await assert.rejects(gathered(stream), lost);
  assert.equal(calls, 1 + 3);
});

test("cancel by id", async () => {
  await assert.rejects(
    async () => {
      for await (const item of client.stream("endless", { key: "by-id", id: "js-1" })) {
        if (item.data.output === 3) assert.equal(await client.cancel("js-1"), 1);
      }
    },
    { name: "InferstreamError", message: "The client cancelled the request." },
  );
  await ended("by-id");
  await assert.rejects(client.cancel("js-1"), { status: 404 });
});

test("a paced stream", async () => {
  const started = performance.now();
  const headers = { "x-items-per-second": "50" };
  await gathered(client.stream("counting", { key: "paced", until: 11 }, { headers }));
  assert.ok(performance.now() - started >= 195);
});

test("a stream that is resumable by setting", async () => {
  const items = await gathered(resumable.stream("words", { prompt: "a b" }));
  assert.deepEqual(items.map(({ event, data }) => [event, data.output]), [["message", "a "], ["message", "b "]]);
  await assert.rejects(gathered(resumable.stream("breaks", { after: 1 })), { message: /breaks failed/ });
});

test("leaving a stream that is resumable by setting ends the model at once", async () => {
  for await (const item of resumable.stream("endless", { key: "left" })) if (item.data.output === 3) break;
  await ended("left", resumable);
  const stream = resumable.stream("endless", { key: "cancelled" });
  for await (const item of stream) if (item.data.output === 3) stream.cancel();
  await ended("cancelled", resumable);
});

test("a stream that is resumable by setting and ends too early is an error", async () => {
  const text = "retry: 500\nid: 0.a:0\n\nid: 0.a:1\ndata: {}\n\n";
  const cut = new Client("http://server", { fetch: async () => responseOf(text) });
  await assert.rejects(gathered(cut.stream("words", {})), { name: "InferstreamError", status: 0 });
});

async function ended(key, server = client) {
  for (;;) {
    if ((await server.generate("ended", { key })).output) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

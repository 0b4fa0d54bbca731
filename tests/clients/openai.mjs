// Asks a server through OpenAI's client for Node, and writes what it got as one line of JSON.
// Arguments: the folder with the client, the URL of the server, what to do, and what to do it with.
import { createRequire } from "node:module";

const [folder, baseURL, action, options] = process.argv.slice(2);
const { OpenAI, APIError } = createRequire(`${folder}/package.json`)("openai");
const client = new OpenAI({ baseURL, apiKey: "none", maxRetries: 0, timeout: 20000 });

const actions = {
  models: async () => (await client.models.list()).data.map((model) => model.id),
  chat: (body) => client.chat.completions.create(body),
  completion: (body) => client.completions.create(body),
  embeddings: async (body) => (await client.embeddings.create(body)).data.map((found) => found.embedding),
  stream: async (body) => {
    const chunks = [];
    for await (const chunk of await client.chat.completions.create({ ...body, stream: true })) chunks.push(chunk);
    return chunks;
  },
  leave: async (body) => {
    for await (const chunk of await client.chat.completions.create({ ...body, stream: true })) {
      if (chunk.choices[0].delta.content) return "left";
    }
  },
  abort: async (body) => {
    const leaving = new AbortController();
    const stream = await client.chat.completions.create({ ...body, stream: true }, { signal: leaving.signal });
    for await (const chunk of stream) if (chunk.choices[0].delta.content) leaving.abort();
    return "aborted";
  },
};

try {
  console.log(JSON.stringify(await actions[action](JSON.parse(options ?? "{}"))));
} catch (error) {
  if (!(error instanceof APIError)) throw error;
  const { status, code, param, type, message } = error;
  console.log(JSON.stringify({ failed: { status, code, param, type, message } }));
}

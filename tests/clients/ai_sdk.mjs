// Asks a server through the AI SDK, and writes what it got as one line of JSON.
// Arguments: the folder with the packages, the URL of the server, the provider, and what to do.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

globalThis.AI_SDK_LOG_WARNINGS = false;
const [folder, url, provider, action] = process.argv.slice(2);
const found = createRequire(`${folder}/package.json`);
const load = (name) => import(pathToFileURL(found.resolve(name)));
const { generateText, streamText, generateObject, streamObject, tool, stepCountIs } = await load("ai");
const { createOpenAICompatible } = await load("@ai-sdk/openai-compatible");
const { createOpenAI } = await load("@ai-sdk/openai");
const { createAnthropic } = await load("@ai-sdk/anthropic");
const { z } = await load("zod");

const options = { baseURL: `${url}/v1`, apiKey: "none" };
const models = {
  compatible: () =>
    createOpenAICompatible({ ...options, name: "server", includeUsage: true, supportsStructuredOutputs: true })("agent"),
  chat: () => createOpenAI(options).chat("agent"),
  responses: () => createOpenAI(options)("agent"),
  anthropic: () => createAnthropic(options)("agent"),
};
const multiply = tool({
  description: "Multiply two numbers.",
  inputSchema: z.object({ a: z.number(), b: z.number() }),
  execute: async ({ a, b }) => a * b,
});
const asked = { model: models[provider](), maxRetries: 0, maxOutputTokens: 80 };
const calling = { ...asked, prompt: "6 times 6", tools: { multiply }, stopWhen: stepCountIs(3) };
const schema = z.object({ name: z.enum(["echo found-it", "Ann"]), age: z.literal([6, 33]) });
const typed = { ...asked, prompt: "Ann is 33", schema };
const failed = ({ error }) => {
  throw error;
};

async function read(stream) {
  let text = "";
  for await (const piece of stream.textStream) text += piece;
  return text;
}

const shown = async (answer, text) => {
  const { inputTokens, outputTokens } = await answer.usage;
  return { text, inputTokens, outputTokens, reason: await answer.finishReason };
};
const actions = {
  async text() {
    const answer = await generateText({ ...asked, prompt: "hello" });
    return shown(answer, answer.text);
  },
  async stream() {
    const answer = streamText({ ...asked, prompt: "hello", onError: failed });
    return shown(answer, await read(answer));
  },
  tools: async () => (await generateText(calling)).text,
  streamedTools: () => read(streamText({ ...calling, onError: failed })),
  object: async () => (await generateObject(typed)).object,
  async streamedObject() {
    const answer = streamObject({ ...typed, onError: failed });
    for await (const _ of answer.partialObjectStream);
    return answer.object;
  },
};
console.log(JSON.stringify(await actions[action]()));

// Calls an RPC through a client of gRPC-Web, and writes what it got as one line of JSON.
// Arguments: the folder with the clients, which of them, the server, the file of descriptors, the method,
// the request as JSON, the options as JSON: leaveAfter (responses), timeoutMs, metadata.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [folder, client, url, descriptors, method, request, options] = process.argv.slice(2);
const require = createRequire(`${folder}/package.json`);
const { createFileRegistry, fromBinary, fromJson, toBinary, toJson } = require("@bufbuild/protobuf");
const { FileDescriptorSetSchema } = require("@bufbuild/protobuf/wkt");
const { leaveAfter = 0, timeoutMs, metadata = {} } = JSON.parse(options);

// A page has no stream of requests. It declares the method as one with a stream of responses alone.
const files = fromBinary(FileDescriptorSetSchema, readFileSync(descriptors));
for (const file of files.file)
  for (const service of file.service) for (const each of service.method) each.clientStreaming = false;
const service = createFileRegistry(files).getService("inference.GRPCInferenceService");
const called = service.methods.find((each) => each.name === method);
const streams = called.methodKind === "server_streaming";
const message = fromJson(called.input, JSON.parse(request));
const found = { responses: [], headers: {}, trailers: {}, code: 0, message: "" };
const gather = (response) => {
  found.responses.push(toJson(called.output, response));
  return found.responses.length === leaveAfter;
};

async function withConnect() {
  const { ConnectError, createClient } = require("@connectrpc/connect");
  const { createGrpcWebTransport } = require(client === "connect-web" ? "@connectrpc/connect-web" : "@connectrpc/connect-node");
  const transport = createGrpcWebTransport({ baseUrl: url, httpVersion: "1.1" });
  const leaving = new AbortController();
  const calling = {
    signal: leaving.signal,
    timeoutMs,
    headers: metadata,
    onHeader: (headers) => (found.headers = Object.fromEntries(headers)),
    onTrailer: (trailers) => (found.trailers = Object.fromEntries(trailers)),
  };
  const rpc = createClient(service, transport)[called.localName];
  try {
    if (streams) for await (const each of rpc(message, calling)) gather(each) && leaving.abort();
    else gather(await rpc(message, calling));
  } catch (error) {
    const failed = ConnectError.from(error);
    Object.assign(found, { code: failed.code, message: failed.rawMessage, trailers: Object.fromEntries(failed.metadata) });
  }
}

async function withGrpcWeb() {
  // One shows the text of a response as it arrives, the other sends bytes.
  const text = client === "grpc-web-text";
  globalThis.XMLHttpRequest = text ? require("xmlhttprequest").XMLHttpRequest : require("xhr2");
  const web = require("grpc-web");
  const rpc = new web.MethodDescriptor(
    `/${service.typeName}/${method}`,
    streams ? web.MethodType.SERVER_STREAMING : web.MethodType.UNARY,
    Object,
    Object,
    (each) => toBinary(called.input, each),
    (data) => fromBinary(called.output, new Uint8Array(data)),
  );
  const base = new web.GrpcWebClientBase({ format: text ? "text" : "binary" });
  if (timeoutMs) metadata.deadline = String(Date.now() + timeoutMs);
  await new Promise((resolve) => {
    const failed = (error) => {
      Object.assign(found, { code: error.code, message: error.message });
      resolve();
    };
    if (!streams) {
      base.rpcCall(`${url}${rpc.getName()}`, message, metadata, rpc, (error, response) => {
        if (error) failed(error);
        else resolve(gather(response));
      });
      return;
    }
    const call = base.serverStreaming(`${url}${rpc.getName()}`, message, metadata, rpc);
    call.on("data", (response) => {
      if (gather(response)) {
        call.cancel();
        resolve();
      }
    });
    call.on("metadata", (headers) => (found.headers = headers));
    call.on("status", (status) => Object.assign(found.trailers, status.metadata));
    call.on("error", failed);
    call.on("end", resolve);
  });
}

await (client.startsWith("connect") ? withConnect() : withGrpcWeb());
console.log(JSON.stringify(found));
process.exit(0);

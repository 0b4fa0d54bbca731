// Calls an RPC through gRPC's client for Node with messages of bytes, and writes what it got as one line of JSON.
// The arguments: the folder with the client, and the JSON that grpc_go.go takes too.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [folder, order] = process.argv.slice(2);
const require = createRequire(`${folder}/package.json`);
const grpc = require("@grpc/grpc-js");
const asked = JSON.parse(order);
const most = 2 ** 30;
const credentials = asked.authority
  ? grpc.credentials.createSsl(readFileSync(asked.authority))
  : grpc.credentials.createInsecure();
const client = new grpc.Client(asked.address, credentials, {
  "grpc.max_receive_message_length": most,
  "grpc.default_compression_algorithm": asked.gzip ? grpc.compressionAlgorithms.gzip : 0,
});
const metadata = new grpc.Metadata();
for (const [name, value] of Object.entries(asked.metadata)) metadata.set(name, value);
const options = { deadline: Date.now() + asked.seconds * 1000 };
const messages = asked.messages.map((message) => Buffer.from(message, "base64"));
const found = { responses: [], code: 0, details: "", trailing: {} };
const same = (octets) => octets;

await new Promise((resolve) => {
  const failed = (error) => Object.assign(found, { code: error.code, details: error.details });
  let call;
  if (asked.stream) {
    call = client.makeBidiStreamRequest(asked.path, same, same, metadata, options);
    for (const message of messages) call.write(message);
    call.end();
    call.on("data", (response) => {
      found.responses.push(response.toString("base64"));
      if (found.responses.length === asked.leaveAfter) call.cancel();
    });
    call.on("error", failed);
  } else {
    call = client.makeUnaryRequest(asked.path, same, same, messages[0], metadata, options, (error, response) => {
      if (error) failed(error);
      else found.responses.push(response.toString("base64"));
    });
  }
  call.on("status", (status) => {
    found.trailing = Object.fromEntries(Object.keys(status.metadata.getMap()).map((name) => [name, status.metadata.get(name)]));
    setImmediate(resolve);
  });
});
console.log(JSON.stringify(found));
client.close();

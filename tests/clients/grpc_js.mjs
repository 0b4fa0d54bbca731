// Calls a typed RPC through gRPC's client for Node, and writes what it got as one line of JSON.
// Arguments: the folder with the client, the .proto file, the server, the service, the method, the messages as JSON,
// and after how many responses to cancel.
import { createRequire } from "node:module";

const [folder, proto, address, service, method, messages, leaveAfter] = process.argv.slice(2);
const require = createRequire(`${folder}/package.json`);
const grpc = require("@grpc/grpc-js");
const definition = require("@grpc/proto-loader").loadSync(proto, { keepCase: true, longs: Number });
const Client = service.split(".").reduce((found, name) => found[name], grpc.loadPackageDefinition(definition));
const client = new Client(address, grpc.credentials.createInsecure());
const { requestStream, responseStream } = Client.service[method];
const sent = JSON.parse(messages, (_, value) => (value?.base64 ? Buffer.from(value.base64, "base64") : value));

const found = { responses: [], code: 0, details: "" };
await new Promise((resolve) => {
  const ended = (error) => {
    if (error) Object.assign(found, { code: error.code, details: error.details });
    resolve();
  };
  const answered = (error, response) => {
    if (response) found.responses.push(response);
    ended(error);
  };
  const first = requestStream ? [] : [sent[0]];
  const call = client[method](...first, ...(responseStream ? [] : [answered]));
  if (requestStream) {
    for (const message of sent) call.write(message);
    call.end();
  }
  if (!responseStream) return;
  call.on("data", (response) => {
    found.responses.push(response);
    if (found.responses.length === Number(leaveAfter)) call.cancel();
  });
  call.on("error", ended);
  call.on("end", () => ended());
});
console.log(JSON.stringify(found, (_, value) => (value?.type === "Buffer" ? Buffer.from(value.data).toString("base64") : value)));
client.close();

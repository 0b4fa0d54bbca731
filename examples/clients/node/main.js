// Calls the models of examples/functions: a response, a stream, a stream that it leaves, V2 tensors, an error.
// The files inferstream.proto and dataplane.proto are those that the server serves at /proto.
import grpc from "@grpc/grpc-js";
import loader from "@grpc/proto-loader";

const address = process.argv[2] ?? "127.0.0.1:8081";

function client(file, name) {
  const definition = loader.loadSync(file, { keepCase: true, longs: Number });
  const Client = name.split(".").reduce((found, part) => found[part], grpc.loadPackageDefinition(definition));
  return new Client(address, grpc.credentials.createInsecure());
}

// A call with one response as a promise. Each call has a deadline.
function call(stub, method, request) {
  const deadline = new Date(Date.now() + 10_000);
  return new Promise((resolve, reject) => {
    stub[method](request, { deadline }, (error, response) => (error ? reject(error) : resolve(response)));
  });
}

// Typed RPCs: the arguments of a function are the fields of the request.
const app = client("inferstream.proto", "inferstream.App");
console.log("add:", (await call(app, "PredictAdd", { a: 41 })).result);

for await (const response of app.PredictWords({ prompt: "What is the capital?" })) {
  console.log("word:", response.result.trim());
}

// Leaving a stream ends the model's generator.
const stream = app.PredictWords({ prompt: "one two three four", pause: 0.2 });
try {
  for await (const response of stream) {
    if (response.result.startsWith("two")) stream.cancel();
  }
} catch (error) {
  if (error.code !== grpc.status.CANCELLED) throw error;
  console.log("left after two words");
}

// V2: any model, with tensors.
const v2 = client("dataplane.proto", "inference.GRPCInferenceService");
const number = (name, value) => ({ name, datatype: "INT64", shape: [1], contents: { int64_contents: [value] } });
const response = await call(v2, "ModelInfer", { model_name: "add", inputs: [number("a", 40), number("b", 2)] });
console.log("V2:", response.outputs[0].contents.int64_contents[0]);

try {
  await call(v2, "ModelInfer", { model_name: "nobody", inputs: [number("a", 1)] });
} catch (error) {
  console.log("error:", grpc.status[error.code]);
}
app.close();
v2.close();

"""The floors: bare uvicorn, FastAPI and bare grpc.aio doing the same work as the server, and nothing else."""

import asyncio
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import grpc
import grpc.aio
import numpy as np
import orjson
import uvicorn
import uvloop

from inferstream.protos.dataplane_pb2 import ModelInferResponse
from inferstream.protos.dataplane_pb2_grpc import add_GRPCInferenceServiceServicer_to_server

JSON = [(b"content-type", b"application/json")]
BINARY = [(b"content-type", b"application/octet-stream")]
EVENTS = [(b"content-type", b"text/event-stream; charset=utf-8")]


async def app(scope, receive, send):
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    if scope["path"].startswith("/v2/models/echo/"):
        answer = np.frombuffer(body, dtype=np.float32, offset=len(body) % 4).tobytes()
        headers = [*BINARY, (b"content-length", b"%d" % len(answer))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})
        return
    request = orjson.loads(body)
    if scope["path"].startswith("/v2/models/mean/"):
        array = np.array(request["inputs"][0]["data"], dtype=np.float32)
        output = {"name": "y", "shape": [1], "datatype": "FP32", "data": [float(array.mean())]}
        encoded = orjson.dumps({"model_name": "mean", "id": "0", "outputs": [output]})
        headers = [*JSON, (b"content-length", b"%d" % len(encoded))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": encoded})
        return
    if scope["path"].startswith("/v2/models/add"):
        a, b = (tensor["data"][0] for tensor in request["inputs"])
        output = {"name": "output", "shape": [1], "datatype": "INT64", "data": [a + b]}
        encoded = orjson.dumps({"model_name": "add", "id": "0", "outputs": [output]})
        headers = [*JSON, (b"content-length", b"%d" % len(encoded))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": encoded})
        return
    if scope["path"].endswith("/infer"):
        given = request["inputs"][0]
        doubled = np.array(given["data"], dtype=np.float32).reshape(given["shape"]) * 2
        output = {"name": "y", "shape": list(doubled.shape), "datatype": "FP32", "data": doubled.reshape(-1)}
        answer = {"model_name": "doubler", "id": "0", "outputs": [output]}
        encoded = orjson.dumps(answer, option=orjson.OPT_SERIALIZE_NUMPY)
        headers = [*JSON, (b"content-length", b"%d" % len(encoded))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": encoded})
        return
    await send({"type": "http.response.start", "status": 200, "headers": EVENTS})
    if scope["path"].startswith(("/v2/models/paced/", "/v2/models/paced-text/")):
        await paced(receive, send)
        return
    for i in range(256):
        output = {"name": "token", "shape": [1, 1], "datatype": "BYTES", "data": [f" token{i}"]}
        event = orjson.dumps({"model_name": "tokens", "id": "0", "outputs": [output]})
        await send({"type": "http.response.body", "body": b"data: " + event + b"\n\n", "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def paced(receive, send) -> None:
    due = time.perf_counter()
    left = asyncio.create_task(receive())
    for i in count():
        if left.done():
            return
        output = {"name": "token", "shape": [1, 1], "datatype": "BYTES", "data": [f" token{i}"]}
        event = orjson.dumps({"model_name": "paced", "id": "0", "outputs": [output]})
        await send({"type": "http.response.body", "body": b"data: " + event + b"\n\n", "more_body": True})
        due += 0.01
        await asyncio.sleep(max(due - time.perf_counter(), 0))


class Servicer:
    async def ModelInfer(self, request, context):  # noqa: N802
        given = request.inputs[0]
        if request.raw_input_contents:
            return doubled_raw(request)
        doubled = np.array(given.contents.fp32_contents, dtype=np.float32).reshape(given.shape) * 2
        message = ModelInferResponse(model_name="doubler", id="0")
        output = message.outputs.add(name="y", datatype="FP32", shape=doubled.shape)
        output.contents.fp32_contents.extend(doubled.reshape(-1).tolist())
        return message

    async def ModelStreamInfer(self, requests, context):  # noqa: N802
        request = await context.read()
        if request.model_name == "paced":
            await paced_messages(context)
            return
        for i in range(256):
            await context.write(token("tokens", i))


async def paced_messages(context):
    due = time.perf_counter()
    for i in count():
        await context.write(token("paced", i))
        due += 0.01
        await asyncio.sleep(max(due - time.perf_counter(), 0))


def token(model, i):
    message = ModelInferResponse(model_name=model, id="0")
    output = message.outputs.add(name="token", datatype="BYTES", shape=[1, 1])
    output.contents.bytes_contents.append(b" token%d" % i)
    return message


def doubled_raw(request):
    given = request.inputs[0]
    doubled = np.frombuffer(request.raw_input_contents[0], dtype=np.float32).reshape(given.shape) * 2
    message = ModelInferResponse(model_name="doubler", id="0")
    message.outputs.add(name="y", datatype="FP32", shape=doubled.shape)
    message.raw_output_contents.append(doubled.tobytes())
    return message


class Synchronous:
    """Large raw tensors there and back, from threads: what gRPC's C core does best."""

    def ModelInfer(self, request, context):  # noqa: N802
        given = request.inputs[0]
        array = np.frombuffer(request.raw_input_contents[0], dtype=np.float32).reshape(given.shape)
        message = ModelInferResponse(model_name="echo", id="0")
        message.outputs.add(name="y", datatype="FP32", shape=array.shape)
        message.raw_output_contents.append(array.tobytes())
        return message


def serve_synchronously(port: int) -> None:
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    server = grpc.server(ThreadPoolExecutor(8), options=options)
    add_GRPCInferenceServiceServicer_to_server(Synchronous(), server)
    server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    server.wait_for_termination()


async def serve_grpc(port: int) -> None:
    server = grpc.aio.server()
    add_GRPCInferenceServiceServicer_to_server(Servicer(), server)
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await server.wait_for_termination()


async def serve_framework(port: int) -> None:
    """FastAPI as its documentation has it, on uvicorn; and gRPC beside it, as what a server at least starts."""
    from fastapi import FastAPI
    from pydantic import BaseModel

    class Tensor(BaseModel):
        name: str
        shape: list[int]
        datatype: str
        data: list[float]

    class Request(BaseModel):
        inputs: list[Tensor]

    class Answer(BaseModel):
        model_name: str
        id: str
        outputs: list[Tensor]

    framework = FastAPI()

    @framework.get("/v2/models/doubler/ready")
    async def ready() -> dict[str, bool]:
        return {"ready": True}

    @framework.post("/v2/models/doubler/infer")
    async def infer(request: Request) -> Answer:
        given = request.inputs[0]
        doubled = np.array(given.data, dtype=np.float32).reshape(given.shape) * 2
        output = Tensor(name="y", shape=doubled.shape, datatype="FP32", data=doubled.reshape(-1).tolist())
        return Answer(model_name="doubler", id="0", outputs=[output])

    beside = grpc.aio.server()
    add_GRPCInferenceServiceServicer_to_server(Servicer(), beside)
    beside.add_insecure_port("127.0.0.1:0")
    await beside.start()
    await uvicorn.Server(uvicorn.Config(framework, port=port, **OPTIONS)).serve()


OPTIONS = {"log_level": "error", "access_log": False, "lifespan": "off", "http": "httptools"}

if __name__ == "__main__":
    kind, port = sys.argv[1], int(sys.argv[2])
    if kind == "rest":
        uvicorn.run(app, port=port, **OPTIONS)
    elif kind.startswith("grpc-sync"):
        serve_synchronously(port)
    else:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve_framework(port) if kind == "fastapi" else serve_grpc(port))

"""Closed-loop load over REST and gRPC: so many callers, each with one request at a time."""

import asyncio
import time
import uuid
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any

import grpc.aio
import numpy as np
import orjson
import uvloop

from inferstream.protos.dataplane_pb2 import (
    ModelInferRequest,
    SystemSharedMemoryRegisterRequest,
    SystemSharedMemoryUnregisterRequest,
)
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub

TOKENS = 256
ARRAY = {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1.5, 2.5, 3.5, 4.5]}
PROMPT = {"name": "prompt", "shape": [1], "datatype": "BYTES", "data": ["hello"]}


def wakeful_loop() -> asyncio.AbstractEventLoop:
    """An event loop that never sleeps, for a load that has a core of its own.

    To wake a sleeping core is a server's cost, the more often the less the load has to do: of a request's
    209 µs it was 37 here, of the bare server's 108 it was 12. Clients elsewhere cost no server that.
    """
    loop = uvloop.new_event_loop()

    def turn() -> None:
        loop.call_soon(turn)

    turn()
    return loop


def http_request(path: str, document: dict) -> bytes:
    body = orjson.dumps(document)
    kind = "Content-Type: application/json"
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


INFER = http_request("/v2/models/doubler/infer", {"inputs": [ARRAY]})
CHAT = http_request(
    "/v1/chat/completions",
    {"model": "tokens", "messages": [{"role": "user", "content": "hello"}], "stream": True},
)
TERMS = [{"name": name, "shape": [1], "datatype": "INT64", "data": [3]} for name in ("a", "b")]
ADD = http_request("/v2/models/add-async/infer", {"inputs": TERMS})
STREAM = http_request("/v2/models/tokens/generate_stream", {"inputs": [PROMPT]})


@lru_cache(4)
def json_request(shape: tuple[int, ...]) -> bytes:
    """A JSON tensor of this shape for the model `mean`; made once, since it takes longer than it is served."""
    values = np.random.default_rng(0).random(prod(shape), np.float32)
    tensor = {"name": "x", "shape": list(shape), "datatype": "FP32", "data": values}
    body = orjson.dumps({"inputs": [tensor]}, option=orjson.OPT_SERIALIZE_NUMPY)
    head = f"POST /v2/models/mean/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def read_answer(reader: asyncio.StreamReader) -> None:
    """Read one HTTP answer of known length; it has to be a 200."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    assert head.startswith(b"http/1.1 200"), head
    start = head.index(b"\r\ncontent-length:") + 17
    await reader.readexactly(int(head[start : head.index(b"\r\n", start)]))


async def rest_infer(port: int, callers: int, seconds: float, request: bytes = INFER) -> int:
    """How many requests were answered."""

    async def caller() -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        answered = 0
        while time.perf_counter() < until:
            writer.write(request)
            await read_answer(reader)
            answered += 1
        writer.close()
        return answered

    until = time.perf_counter() + seconds
    return sum(await asyncio.gather(*(caller() for _ in range(callers))))


async def rest_json(port: int, array: np.ndarray, callers: int, seconds: float) -> int:
    """How many tensors of the shape of `array` were taken in as JSON."""
    return await rest_infer(port, callers, seconds, json_request(array.shape))


async def rest_latencies(port: int, requests: int) -> list[float]:
    """Seconds that each request of a lone caller took."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    times = []
    for _ in range(requests):
        started = time.perf_counter()
        writer.write(INFER)
        await read_answer(reader)
        times.append(time.perf_counter() - started)
    writer.close()
    return times


async def sse_tokens(port: int, callers: int, seconds: float) -> int:
    """How many tokens arrived in events of `generate_stream`."""
    return await _tokens(port, callers, seconds, STREAM, b"data: {")


async def chat_tokens(port: int, callers: int, seconds: float) -> int:
    """How many tokens arrived in chunks of OpenAI's chat completions."""
    return await _tokens(port, callers, seconds, CHAT, b'" token')


async def _tokens(port: int, callers: int, seconds: float, request: bytes, mark: bytes) -> int:
    """How many tokens arrived; each has `mark` once in its event."""

    async def caller() -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
        streams = 0
        while time.perf_counter() < until:
            writer.write(request)
            answer = await reader.readuntil(b"\r\n0\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 200"), answer[:200]
            assert answer.count(mark) == TOKENS
            streams += 1
        writer.close()
        return streams * TOKENS

    until = time.perf_counter() + seconds
    return sum(await asyncio.gather(*(caller() for _ in range(callers))))


def _message(model: str, **tensor: object) -> object:
    return ModelInferRequest(model_name=model, id="0", inputs=[tensor])


async def grpc_infer(port: int, callers: int, seconds: float) -> int:
    """How many requests were answered."""
    message = _message(
        "doubler", name="x", shape=[1, 4], datatype="FP32", contents={"fp32_contents": ARRAY["data"]}
    )

    async def caller(stub: GRPCInferenceServiceStub) -> int:
        answered = 0
        while time.perf_counter() < until:
            answer = await stub.ModelInfer(message)
            assert answer.outputs[0].contents.fp32_contents[0] == 3.0
            answered += 1
        return answered

    until = time.perf_counter() + seconds
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = GRPCInferenceServiceStub(channel)
        return sum(await asyncio.gather(*(caller(stub) for _ in range(callers))))


async def grpc_add(port: int, callers: int, seconds: float, typed: bool) -> int:
    """How many sums of a function were answered, as V2's ModelInfer or as its typed RPC."""
    if typed:
        path, message, expected = "/inferstream.App/PredictAddAsync", b"\x08\x03\x10\x03", b"\x08\x06"
    else:
        inputs = [{**term, "contents": {"int64_contents": [3]}} for term in TERMS]
        for tensor in inputs:
            del tensor["data"]
        request = ModelInferRequest(model_name="add-async", id="0", inputs=inputs)
        path, message, expected = (
            "/inference.GRPCInferenceService/ModelInfer",
            request.SerializeToString(),
            b"\x06",
        )

    async def caller(call: grpc.aio.UnaryUnaryMultiCallable) -> int:
        answered = 0
        while time.perf_counter() < until:
            assert expected in await call(message)
            answered += 1
        return answered

    until = time.perf_counter() + seconds
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.unary_unary(path)
        return sum(await asyncio.gather(*(caller(call) for _ in range(callers))))


async def grpc_tokens(port: int, callers: int, seconds: float) -> int:
    """How many messages arrived."""
    message = _message(
        "tokens", name="prompt", shape=[1], datatype="BYTES", contents={"bytes_contents": [b"hello"]}
    )

    async def requests():
        yield message

    async def caller(stub: GRPCInferenceServiceStub) -> int:
        received = 0
        while time.perf_counter() < until:
            async for _ in stub.ModelStreamInfer(requests()):
                received += 1
        return received

    until = time.perf_counter() + seconds
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = GRPCInferenceServiceStub(channel)
        return sum(await asyncio.gather(*(caller(stub) for _ in range(callers))))


async def grpc_raw(port: int, array: np.ndarray, callers: int, seconds: float, model: str = "echo") -> int:
    """How many tensors went there and back in the protocol's raw form."""
    message = ModelInferRequest(
        model_name=model,
        id="0",
        inputs=[{"name": "x", "shape": array.shape, "datatype": "FP32"}],
        raw_input_contents=[array.tobytes()],
    )

    async def caller(stub: GRPCInferenceServiceStub) -> int:
        answered = 0
        while time.perf_counter() < until:
            answer = await stub.ModelInfer(message)
            assert len(answer.raw_output_contents[0]) == array.nbytes
            answered += 1
        return answered

    until = time.perf_counter() + seconds
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
        stub = GRPCInferenceServiceStub(channel)
        return sum(await asyncio.gather(*(caller(stub) for _ in range(callers))))


async def grpc_shared(port: int, array: np.ndarray, callers: int, seconds: float) -> int:
    """The same with the tensor in shared memory, there and back, where the server has that; else raw."""
    size, name = array.nbytes, f"inferstream-{uuid.uuid4().hex}"
    place = {"shared_memory_region": {"string_param": name}, "shared_memory_byte_size": {"int64_param": size}}
    behind = {**place, "shared_memory_offset": {"int64_param": size}}
    message = ModelInferRequest(
        model_name="echo",
        inputs=[{"name": "x", "shape": array.shape, "datatype": "FP32", "parameters": place}],
        outputs=[{"name": "y", "parameters": behind}],
    )
    path = Path("/dev/shm", name)
    path.write_bytes(array.tobytes() + bytes(size))
    until = time.perf_counter() + seconds
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = GRPCInferenceServiceStub(channel)
            region = SystemSharedMemoryRegisterRequest(name=name, key=f"/{name}", byte_size=2 * size)
            try:
                await stub.SystemSharedMemoryRegister(region)
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
                    raise
                return await grpc_raw(port, array, callers, seconds)
            answered = 0
            while time.perf_counter() < until:
                (output,) = (await stub.ModelInfer(message)).outputs
                assert output.parameters["shared_memory_byte_size"].int64_param == size
                answered += 1
            await stub.SystemSharedMemoryUnregister(SystemSharedMemoryUnregisterRequest(name=name))
            return answered
    finally:
        path.unlink()


async def first_events(port: int, streams: int) -> list[float]:
    """Seconds from the request to the first event, for one stream after another of a lone caller."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
    times = []
    for _ in range(streams):
        started = time.perf_counter()
        writer.write(STREAM)
        await reader.readuntil(b"data: {")
        times.append(time.perf_counter() - started)
        await reader.readuntil(b"\r\n0\r\n\r\n")
    writer.close()
    return times


class Paced(asyncio.Protocol):
    """Takes a stream that never ends and notes when its events come."""

    def __init__(self, request: bytes, gaps: list[float]) -> None:
        self._request = request
        self._gaps = gaps
        self._last = 0.0
        self.events = 0

    def connection_made(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        events = data.count(b"data: {")
        if events:
            now = time.perf_counter()
            if self._last:
                self._gaps.append(now - self._last)
            self._last = now
            self.events += events


PACED = http_request("/v2/models/paced/generate_stream", {"inputs": [PROMPT]})
PACED_TEXT = http_request("/v2/models/paced-text/generate_stream", {"inputs": [PROMPT]})


async def paced(port: int, streams: int, seconds: float, request: bytes = PACED) -> tuple[float, list[float]]:
    """Tokens a second of so many streams that make one every 10 ms, and the gaps between them in seconds."""
    gaps: list[float] = []
    loop = asyncio.get_running_loop()
    opened = [
        (await loop.create_connection(lambda: Paced(request, gaps), "127.0.0.1", port))[1]
        for _ in range(streams)
    ]
    measured = await observe(opened, gaps, seconds)
    for stream in opened:
        stream.transport.abort()
    return measured


async def observe(
    opened: Sequence[Any], gaps: list[float], seconds: float, settle: float = 2.0
) -> tuple[float, list[float]]:
    """Events a second of what has been opened, and the gaps between them, once all streams run."""
    await asyncio.sleep(settle)
    gaps.clear()
    before, started = sum(each.events for each in opened), time.perf_counter()
    await asyncio.sleep(seconds)
    found = sum(each.events for each in opened) - before
    took = time.perf_counter() - started
    return found / took, list(gaps)


async def rest_binary(port: int, array: np.ndarray, callers: int, seconds: float) -> int:
    """How many tensors went there and back in the protocol's binary form."""
    tensor = {"name": "x", "shape": list(array.shape), "datatype": "FP32"}
    tensor["parameters"] = {"binary_data_size": array.nbytes}
    head = orjson.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}})
    body = head + array.tobytes()
    message = (
        b"POST /v2/models/echo/infer HTTP/1.1\r\nHost: localhost\r\nInference-Header-Content-Length: %d\r\n"
        b"Content-Length: %d\r\n\r\n" % (len(head), len(body))
    ) + body

    async def caller() -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**26)
        answered = 0
        while time.perf_counter() < until:
            writer.write(message)
            await read_answer(reader)
            answered += 1
        writer.close()
        return answered

    until = time.perf_counter() + seconds
    return sum(await asyncio.gather(*(caller() for _ in range(callers))))


BURN = http_request("/v2/models/burner/infer", {"inputs": [ARRAY]})
LIVE = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def health_under_fire(port: int, burning: int, looks: int) -> list[float]:
    """Seconds that each look at the server's health took while so many requests kept its models busy."""
    done = False

    async def burn() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while not done:
            writer.write(BURN)
            await read_answer(reader)
        writer.close()

    burns = [asyncio.create_task(burn()) for _ in range(burning)]
    await asyncio.sleep(0.5)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    times = []
    for _ in range(looks):
        started = time.perf_counter()
        writer.write(LIVE)
        await read_answer(reader)
        times.append(time.perf_counter() - started)
        await asyncio.sleep(0.005)
    done = True
    writer.close()
    await asyncio.gather(*burns)
    return times

"""Closed-loop load over REST and gRPC: so many callers, each with one request at a time."""

import asyncio
import time

import grpc.aio
import numpy as np
import orjson

from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from inferstream.protos.messages import ModelInferRequest

TOKENS = 256
ARRAY = {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1.5, 2.5, 3.5, 4.5]}
PROMPT = {"name": "prompt", "shape": [1], "datatype": "BYTES", "data": ["hello"]}


def http_request(path: str, document: dict) -> bytes:
    body = orjson.dumps(document)
    head = f"POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


INFER = http_request("/v2/models/doubler/infer", {"inputs": [ARRAY]})
STREAM = http_request("/v2/models/tokens/generate_stream", {"inputs": [PROMPT]})


IMAGE = np.random.default_rng(0).random((1, 3, 224, 224), dtype=np.float32)
TENSOR = {"name": "x", "shape": list(IMAGE.shape), "datatype": "FP32", "data": IMAGE.reshape(-1).tolist()}
LARGE = http_request("/v2/models/mean/infer", {"inputs": [TENSOR]})


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


async def rest_image(port: int, callers: int, seconds: float) -> int:
    """How many images, as large JSON tensors, were answered; a few callers are enough to keep a server busy."""
    return await rest_infer(port, min(callers, 4), seconds, LARGE)


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
    """How many tokens arrived."""

    async def caller() -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        streams = 0
        while time.perf_counter() < until:
            writer.write(STREAM)
            answer = await reader.readuntil(b"\r\n0\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 200"), answer[:200]
            assert answer.count(b"data: {") == TOKENS
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


async def rest_binary(port: int, array: np.ndarray, callers: int, seconds: float) -> int:
    """How many tensors went there and back in the protocol's binary form."""
    tensor = {"name": "x", "shape": list(array.shape), "datatype": "FP32"}
    tensor["parameters"] = {"binary_data_size": array.nbytes}
    head = orjson.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}})
    body = head + array.tobytes()
    message = (
        b"POST /v2/models/echo/infer HTTP/1.1\r\nHost: bench\r\nInference-Header-Content-Length: %d\r\n"
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
LIVE = b"GET /v2/health/live HTTP/1.1\r\nHost: bench\r\n\r\n"


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

"""Closed-loop load over REST and gRPC: so many callers, each with one request at a time."""

import asyncio
import time

import grpc.aio
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


async def rest_infer(port: int, callers: int, seconds: float) -> int:
    """How many requests were answered."""

    async def caller() -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        answered = 0
        while time.perf_counter() < until:
            writer.write(INFER)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            lower = head.lower()
            start = lower.index(b"content-length:") + 15
            await reader.readexactly(int(lower[start : lower.index(b"\r\n", start)]))
            answered += 1
        writer.close()
        return answered

    until = time.perf_counter() + seconds
    return sum(await asyncio.gather(*(caller() for _ in range(callers))))


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

"""Wrong messages over gRPC: right calls with wrong fields, and bytes that are no message."""

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import grpc

from inferstream.protos import dataplane_pb2 as pb

from . import corpus, mutations
from .run import Run

SERVICE = "/inference.GRPCInferenceService/"
UNARY = [
    "ModelInfer",
    "ModelMetadata",
    "ModelReady",
    "RepositoryIndex",
    "ServerMetadata",
    "ModelStatistics",
    "Nothing",
]
FAULTS = {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.DATA_LOSS}


def message(choose: random.Random) -> bytes:
    """One ModelInferRequest as bytes."""
    request = pb.ModelInferRequest(model_name=choose.choice(["words", "add", "total", "echo", "x", ""]))
    request.id = choose.choice(["", "a", "\n", "x" * 300])
    for _ in range(choose.choice([0, 1, 1, 2])):
        datatype = choose.choice(mutations.DATATYPES)
        tensor = request.inputs.add(name=choose.choice(["a", "b", "x", "prompt", ""]), datatype=datatype)
        tensor.shape.extend(choose.choice([[1], [0], [-1], [4], [2, 2], [2**40, 2**40], [1] * 33]))
        kind = choose.random()
        if kind < 0.5:
            field = choose.choice(
                [
                    "bool_contents",
                    "int_contents",
                    "int64_contents",
                    "uint_contents",
                    "fp32_contents",
                    "fp64_contents",
                ]
            )
            getattr(tensor.contents, field).extend([1, 0, 1, 1])
        elif kind < 0.7:
            tensor.contents.bytes_contents.extend([b"a", b"\xff", b""])
        else:
            request.raw_input_contents.append(mutations.raw_elements(choose))
        if choose.random() < 0.2:
            tensor.parameters["content_type"].string_param = choose.choice(["np", "str", "pd", "x"])
    if choose.random() < 0.2:
        request.outputs.add(name=choose.choice(["output", "", "x"]))
    if choose.random() < 0.2:
        request.parameters["timeout"].int64_param = choose.choice([-1, 0, 5, 2**62])
    found: bytes = request.SerializeToString()
    return mutations.broken(found, choose) if choose.random() < 0.3 else found


async def fuzz(port: int, seed: int, run: Run) -> None:
    """Call until the run is over."""
    choose = random.Random(seed)
    loop = asyncio.get_running_loop()
    while not run.over:
        async with grpc.aio.insecure_channel(
            f"127.0.0.1:{port}", [("fuzz", seed), ("n", loop.time())]
        ) as channel:
            for _ in range(50):
                if run.over:
                    break
                await _call(channel, choose, run)


async def _call(channel: Any, choose: random.Random, run: Run) -> None:
    text, path = message(choose), SERVICE + choose.choice(UNARY)
    if of_corpus := choose.random() < 0.4:
        method, seed = choose.choice(corpus.rpcs())
        path = f"/{method}" if "/" in method else SERVICE + method
        text = mutations.broken(seed, choose) if choose.random() < 0.8 else seed
    metadata = (
        [("x-stream-dialect", choose.choice(["triton", "mlserver", "x"]))] if choose.random() < 0.2 else []
    )
    stream = not of_corpus and choose.random() < 0.4
    try:
        if stream:
            texts = [text, *(message(choose) for _ in range(choose.choice([0, 0, 2])))]
            calls = channel.stream_stream(SERVICE + "ModelStreamInfer")(
                _each(texts), timeout=5, metadata=metadata
            )
            async for _ in calls:
                if choose.random() < 0.1:
                    calls.cancel()
                    break
        else:
            await channel.unary_unary(path)(text, timeout=5, metadata=metadata)
        run.seen["grpc OK"] += 1
    except grpc.aio.AioRpcError as error:
        run.seen[f"grpc {error.code().name}"] += 1
        # grpc.aio says this of its own where a call ends while it writes to it.
        if error.code() in FAULTS and error.details() != "Internal error from Core":
            run.fault(f"grpc {error.code().name} {error.details()!r}", text)
    except asyncio.CancelledError:
        run.seen["grpc cancelled"] += 1


async def _each(texts: list[bytes]) -> AsyncIterator[bytes]:
    for text in texts:
        yield text

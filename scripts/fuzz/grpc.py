"""Wrong messages over gRPC: right calls with wrong fields, and bytes that are no message."""

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import grpc

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
    text, path = mutations.message(choose), SERVICE + choose.choice(UNARY)
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
            texts = [text, *(mutations.message(choose) for _ in range(choose.choice([0, 0, 2])))]
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

"""Misuses the gRPC port for an hour in every way that clients do, and looks for what the server keeps of it."""

import argparse
import asyncio
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from statistics import median

import grpc
import grpc.aio
import httpx

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.server.http2 import frames
from inferstream.server.http2.errors import ErrorCode
from inferstream.server.http2.hpack import encode
from scripts.chaos import address

MODELS = """
import asyncio
import gc
import json
from inferstream import MLModel
from inferstream.codecs import StringCodec
from inferstream.types import InferenceResponse

KEPT = ("Connection", "Stream", "UnaryCall", "StreamingCall", "Call")

def text(model, value):
    return InferenceResponse(model_name=model.name, outputs=[StringCodec.encode_output("text", [value])])

def option(payload, name, default):
    return payload.parameters.get(name, default) if payload.parameters else default

OURS = ("inferstream.server.http2", "inferstream.server.grpc")


class Echo(MLModel):
    async def predict(self, payload):
        await asyncio.sleep(option(payload, "seconds", 0))
        return text(self, "x" * option(payload, "size", 10))

    async def predict_stream(self, payloads):
        async for payload in payloads:
            for _ in range(option(payload, "items", 5)):
                yield text(self, "x" * option(payload, "size", 10))
                await asyncio.sleep(option(payload, "seconds", 0))

class Census(MLModel):
    async def predict(self, payload):
        await asyncio.sleep(0)
        gc.collect()
        found = {name: 0 for name in KEPT}
        for each in gc.get_objects():
            kind = type(each)
            if kind.__name__ in found and kind.__module__.startswith(OURS):
                found[kind.__name__] += 1
        return text(self, json.dumps({"tasks": len(asyncio.all_tasks()), **found}))
"""

INFER = "/inference.GRPCInferenceService/ModelInfer"
STREAM = "/inference.GRPCInferenceService/ModelStreamInfer"

QUIET = 20.0
"""Seconds that the server may take to forget the clients of a round."""

LARGEST = 4 * 2**20
"""Bytes of a message."""

GROWTH = 8192
"""KiB that the memory may grow between the last two quarters of the rounds."""

Ends = Counter[str]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=int, default=3600)
    options.add_argument("--rounds", type=int, default=20)
    options.add_argument("--engine", default="native")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name in ("echo", "census"):
            model = Path(folder, "models", name)
            model.mkdir(parents=True)
            (model / "soaked_models.py").write_text(MODELS)
            implementation = f"soaked_models.{name.capitalize()}"
            (model / "model-settings.json").write_text(json.dumps({"implementation": implementation}))
        output = Path(folder, "output")
        ports = [part for kind in ("http", "grpc", "metrics") for part in (f"--{kind}-port", "0")]
        with output.open("w") as log:
            server = subprocess.Popen(
                [sys.executable, "-m", "inferstream", "start", str(Path(folder, "models")), *ports],
                env={
                    **os.environ,
                    "INFERSTREAM_GRPC_ENGINE": given.engine,
                    "INFERSTREAM_GRPC_MAX_MESSAGE_LENGTH": str(LARGEST),
                },
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            url = address(output)
            port = int(re.findall(r"^gRPC +\S*:(\d+)$", output.read_text(), re.M)[0])
            return asyncio.run(soak(server.pid, url, port, given.seconds, given.rounds))
        finally:
            server.terminate()
            print("the server ended with", server.wait(40))
            print(*[line for line in output.read_text().splitlines() if "rror" in line][-20:], sep="\n")


async def soak(pid: int, url: str, port: int, seconds: int, rounds: int) -> int:
    """Rounds of misuse with a look after each; the first one warms the server up."""
    ends: Ends = Counter()
    looks: list[dict[str, int]] = []
    async with httpx.AsyncClient(timeout=60) as client:
        for number in range(rounds + 1):
            await misuse(port, seconds / (rounds + 1), ends)
            looks.append(await quiet_look(pid, client, url, looks))
            print(f"round {number} of {rounds}:", looks[-1], flush=True)
    print("calls and connections:", dict(sorted(ends.items())))
    return judge(looks)


async def misuse(port: int, seconds: float, ends: Ends) -> None:
    """Every kind of client at the same time."""
    until = time.monotonic() + seconds

    async def repeat(kind: Callable[[int, Ends], Awaitable[None]]) -> None:
        while time.monotonic() < until:
            try:
                await asyncio.wait_for(kind(port, ends), 30)
            except (OSError, asyncio.IncompleteReadError):
                ends[f"{kind.__name__}: connection lost"] += 1
            ends[kind.__name__] += 1

    kinds = (calls, cancels, deadlines, leaves, slow_reads, errors, resets, disconnects, protocol_errors)
    await asyncio.gather(*(repeat(kind) for kind in kinds))


async def quiet_look(
    pid: int, client: httpx.AsyncClient, url: str, before: list[dict[str, int]]
) -> dict[str, int]:
    """What the server holds, as soon as it holds no more than after the first round, or at last."""
    until = time.monotonic() + QUIET
    while True:
        await asyncio.sleep(1)
        found = await look(pid, client, url)
        kept = [name for name in found if name != "KiB" and before and found[name] > before[0][name]]
        if (before and not kept) or time.monotonic() > until:
            return found


async def look(pid: int, client: httpx.AsyncClient, url: str) -> dict[str, int]:
    response = await client.post(f"{url}/v2/models/census/generate", json={"text": "x"})
    proc = Path("/proc", str(pid))
    memory = (proc / "smaps_rollup").read_text()
    return {
        **json.loads(response.json()["text"]),
        "fds": len(list((proc / "fd").iterdir())),
        "threads": int(re.findall(r"Threads:\s+(\d+)", (proc / "status").read_text())[0]),
        "KiB": sum(map(int, re.findall(r"Private_\w+:\s+(\d+)", memory))),
    }


def judge(looks: list[dict[str, int]]) -> int:
    """What is counted must be as after the first round. Memory must not go on growing."""
    first, last, rounds = looks[0], looks[-1], looks[1:]
    grown = {name: last[name] - first[name] for name in first if name != "KiB" and last[name] > first[name]}
    quarter = max(1, len(rounds) // 4)
    later = median(each["KiB"] for each in rounds[-quarter:])
    earlier = median(each["KiB"] for each in rounds[-2 * quarter : -quarter] or rounds[:quarter])
    print("grown:", grown or "nothing", f"- memory in the last quarter: {later - earlier:+.0f} KiB")
    return 0 if not grown and later - earlier <= GROWTH else 1


# Clients with a library


def request(**parameters: int | float) -> bytes:
    made = ModelInferRequest(model_name="echo")
    made.inputs.add(name="x", datatype="FP32", shape=[1]).contents.fp32_contents.append(1.5)
    for name, value in parameters.items():
        if isinstance(value, int):
            made.parameters[name].int64_param = value
        else:
            made.parameters[name].double_param = value
    return made.SerializeToString()


def channel(port: int) -> grpc.aio.Channel:
    # Otherwise channels to one address share a connection.
    return grpc.aio.insecure_channel(f"127.0.0.1:{port}", [("grpc.use_local_subchannel_pool", 1)])


async def code_of(call: Awaitable[object]) -> str:
    try:
        await call
    except asyncio.CancelledError:
        return "cancelled"
    except grpc.aio.AioRpcError as error:
        return error.code().name
    return "OK"


async def calls(port: int, ends: Ends) -> None:
    """Calls of all sizes that end well."""
    async with channel(port) as own:
        infer = own.unary_unary(INFER)
        for _ in range(20):
            asked = [infer(request(size=random.choice((1, 100, 100_000))), timeout=20) for _ in range(8)]
            for code in await asyncio.gather(*map(code_of, asked)):
                ends[f"calls: {code}"] += 1


async def cancels(port: int, ends: Ends) -> None:
    """Unary calls that the client cancels before, while and after they are served."""
    async with channel(port) as own:
        infer = own.unary_unary(INFER)
        for _ in range(20):
            call = infer(request(seconds=random.choice((0.0, 0.01, 30.0))))
            await asyncio.sleep(random.random() * 0.02)
            call.cancel()
            ends[f"cancels: {await code_of(call)}"] += 1


async def deadlines(port: int, ends: Ends) -> None:
    async with channel(port) as own:
        infer, stream = own.unary_unary(INFER), own.stream_stream(STREAM)
        for _ in range(10):
            timeout = random.random() * 0.03
            ends[f"deadlines: {await code_of(infer(request(seconds=30.0), timeout=timeout))}"] += 1
            call = stream(timeout=timeout)
            with suppress(grpc.aio.AioRpcError, asyncio.CancelledError):
                await call.write(request(items=10**6, seconds=0.001))
                async for _ in call:
                    pass
            ends[f"deadlines of streams: {(await call.code()).name}"] += 1


async def leaves(port: int, ends: Ends) -> None:
    """Streams whose client reads a little and leaves, or half-closes and reads all."""
    async with channel(port) as own:
        for _ in range(10):
            call = own.stream_stream(STREAM)()
            await call.write(request(items=random.choice((0, 3, 10**6)), seconds=0.001))
            if random.random() < 0.5:
                await call.write(request(items=2))
            if random.random() < 0.5:
                await call.done_writing()
            await asyncio.sleep(random.random() * 0.05)
            call.cancel()
            ends[f"leaves: {(await call.code()).name}"] += 1


async def slow_reads(port: int, ends: Ends) -> None:
    """Streams that are read far slower than they are made."""
    async with channel(port) as own:
        streams = [own.stream_stream(STREAM)() for _ in range(4)]
        for call in streams:
            await call.write(request(items=10**6, size=100_000))
        for _ in range(10):
            for call in streams:
                await call.read()
            await asyncio.sleep(0.1)
        for call in streams:
            call.cancel()
            ends[f"slow reads: {(await call.code()).name}"] += 1


async def errors(port: int, ends: Ends) -> None:
    """Calls that the server refuses."""
    async with channel(port) as own:
        infer = own.unary_unary(INFER)
        refused = [
            own.unary_unary("/nobody.Service/Nothing")(b"", timeout=20),
            infer(b"\xff\xff garbage", timeout=20),
            infer(request(), timeout=20, metadata=(("x-long", "a" * 20_000),)),
            infer(bytes(LARGEST + 1), timeout=20),
            infer(bytes(LARGEST + 1), timeout=20, compression=grpc.Compression.Gzip),
            infer(ModelInferRequest(model_name="nobody").SerializeToString(), timeout=20),
        ]
        for code in await asyncio.gather(*map(code_of, refused)):
            ends[f"errors: {code}"] += 1
    await asyncio.sleep(0.2)


# Clients without one


FIELDS = (
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", STREAM.encode()),
    (b":authority", b"localhost"),
    (b"content-type", b"application/grpc"),
    (b"te", b"trailers"),
)
BLOCK = encode(FIELDS)
CLIENT = frames.PREFACE + frames.frame(frames.SETTINGS, 0, 0, b"")
ACKNOWLEDGED = frames.frame(frames.SETTINGS, frames.ACK, 0, b"")


def call_of(stream: int, message: bytes, end: bool = False) -> bytes:
    prefixed = b"\0" + len(message).to_bytes(4, "big") + message
    flags = frames.END_STREAM if end else 0
    return frames.headers(stream, BLOCK, False) + frames.frame(frames.DATA, flags, stream, prefixed)


async def connected(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(CLIENT)
    await reader.readexactly(frames.HEAD_BYTES)  # of its SETTINGS
    writer.write(ACKNOWLEDGED)
    return reader, writer


async def resets(port: int, ends: Ends) -> None:
    """Streams that the client resets, as many as the server allows, and a connection that ends well."""
    reader, writer = await connected(port)
    message = request(items=10**6, seconds=0.001)
    for stream in range(1, 100, 2):
        writer.write(call_of(stream, message))
        if random.random() < 0.5:
            await asyncio.sleep(0.005)
        writer.write(frames.rst_stream(stream, ErrorCode.CANCEL))
        ends["resets: streams"] += 1
    writer.write(frames.goaway(0, ErrorCode.NO_ERROR, ""))
    await reader.read()
    writer.close()
    await asyncio.sleep(0.5)


async def disconnects(port: int, ends: Ends) -> None:
    """Connections that end in the middle of anything."""
    octets = CLIENT + ACKNOWLEDGED
    octets += b"".join(call_of(stream, request(items=10**6, seconds=0.001)) for stream in range(1, 20, 2))
    octets = octets[: random.randrange(1, len(octets))]
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(octets)
    await writer.drain()
    await asyncio.sleep(random.random() * 0.05)
    if random.random() < 0.5:
        writer.transport.abort()
    else:
        writer.close()


async def protocol_errors(port: int, ends: Ends) -> None:
    """Frames that no client may send, while calls are in progress."""
    wrong = random.choice(
        (
            frames.frame(frames.PING, 0, 0, b"short"),
            frames.frame(frames.DATA, 0, 0, b"x"),
            frames.frame(frames.CONTINUATION, 0, 1, b""),
            frames.frame(frames.HEADERS, frames.END_HEADERS, 101, b"\xff\xff\xff"),
            frames.window_update(0, 0),
            random.randbytes(200),
        )
    )
    reader, writer = await connected(port)
    for stream in range(1, 10, 2):
        writer.write(call_of(stream, request(items=10**6, seconds=0.001)))
    writer.write(wrong)
    writer.write_eof()
    await reader.read()
    writer.close()


if __name__ == "__main__":
    raise SystemExit(main())

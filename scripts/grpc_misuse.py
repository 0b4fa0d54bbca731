"""Clients of the gRPC port that call, cancel, leave, read slowly, err and disconnect. Each counts how its calls end."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable
from contextlib import suppress

import grpc
import grpc.aio

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.server.http2 import frames
from inferstream.server.http2.errors import ErrorCode
from inferstream.server.http2.hpack import encode

INFER = "/inference.GRPCInferenceService/ModelInfer"
STREAM = "/inference.GRPCInferenceService/ModelStreamInfer"

LARGEST = 4 * 2**20
"""Bytes of a message that the server takes."""

Ends = Counter[str]


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


KINDS = (calls, cancels, deadlines, leaves, slow_reads, errors, resets, disconnects, protocol_errors)
"""Every kind of client."""

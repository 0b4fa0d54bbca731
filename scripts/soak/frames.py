"""Clients of the gRPC port without a library: resets, connections that end anywhere, and frames that none may send."""

import asyncio
import random
from contextlib import suppress

from inferstream.server.http2 import frames
from inferstream.server.http2.errors import ErrorCode
from inferstream.server.http2.hpack import encode

from .grpc import SERVICE, asking
from .site import MODELS, Site, send_a_part

BLOCK = encode(
    (
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", f"{SERVICE}ModelStreamInfer".encode()),
        (b":authority", b"localhost"),
        (b"content-type", b"application/grpc"),
        (b"te", b"trailers"),
    )
)
CLIENT = frames.PREFACE + frames.frame(frames.SETTINGS, 0, 0, b"")
ACKNOWLEDGED = frames.frame(frames.SETTINGS, frames.ACK, 0, b"")


def call_of(stream: int, choose: random.Random) -> bytes:
    """A stream that does not end."""
    message = asking(choose.choice([*MODELS]), items=10**6, seconds=0.001)
    prefixed = b"\0" + len(message).to_bytes(4, "big") + message
    return frames.headers(stream, BLOCK, False) + frames.frame(frames.DATA, 0, stream, prefixed)


async def connected(site: Site) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", site.grpc_port)
    writer.write(CLIENT)
    await reader.readexactly(frames.HEAD_BYTES)  # of its SETTINGS
    writer.write(ACKNOWLEDGED)
    return reader, writer


async def resets(site: Site, choose: random.Random) -> None:
    """Streams that the client resets, as many as the server allows, and a connection that ends well."""
    reader, writer = await connected(site)
    for stream in range(1, 100, 2):
        writer.write(call_of(stream, choose))
        if choose.random() < 0.5:
            await asyncio.sleep(0.005)
        writer.write(frames.rst_stream(stream, ErrorCode.CANCEL))
        site.note("resets", "", "reset", "reset")
    writer.write(frames.goaway(0, ErrorCode.NO_ERROR, ""))
    await reader.read()
    writer.close()
    await asyncio.sleep(0.5)


async def disconnects(site: Site, choose: random.Random) -> None:
    """Connections that end in the middle of anything."""
    octets = CLIENT + ACKNOWLEDGED + b"".join(call_of(stream, choose) for stream in range(1, 20, 2))
    await send_a_part(site.grpc_port, octets, choose)
    site.note("disconnects", "", "left", "left")


async def protocol_errors(site: Site, choose: random.Random) -> None:
    """Frames that no client may send, while calls are in progress: the server closes the connection."""
    wrong = choose.choice(
        (
            frames.frame(frames.PING, 0, 0, b"short"),
            frames.frame(frames.DATA, 0, 0, b"x"),
            frames.frame(frames.CONTINUATION, 0, 1, b""),
            frames.frame(frames.HEADERS, frames.END_HEADERS, 101, b"\xff\xff\xff"),
            frames.window_update(0, 0),
            choose.randbytes(200),
        )
    )
    reader, writer = await connected(site)
    for stream in range(1, 10, 2):
        writer.write(call_of(stream, choose))
    with suppress(OSError):
        writer.write(wrong)
        writer.write_eof()
        await reader.read()
    writer.close()
    site.note("protocol errors", "", "closed", "closed")


CLIENTS = (resets, disconnects, protocol_errors)

"""Fuzzes our parsers by the lines that bytes reach in them, with atheris: `python -m scripts.fuzz.parsers`.

Each parser runs in a process of its own, because the library ends the process with the first exception that no parser
may raise. The bytes that raised it are printed.
"""

import argparse
import asyncio
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import atheris
from google.protobuf.message import DecodeError

with atheris.instrument_imports(include=["inferstream"]):
    from inferstream.errors import InferstreamError
    from inferstream.protos.grpc import parse_request
    from inferstream.protos.grpc_requests import InferRequests
    from inferstream.protos.json_requests import build_request, load_request
    from inferstream.server.http1.heads import END, RequestRefused, parse_head
    from inferstream.server.http1.incoming import ChunkedBody
    from inferstream.server.http2.hpack import Decoder, encode
    from inferstream.server.http2.hpack.errors import HpackError
    from tests.unit.server.http2.conversations import Served

import contextlib

from inferstream.server.http2 import frames

from . import mutations


def json_body(data: bytes) -> None:
    size = data[0] if b"\0" <= data[:1] < b"\x80" else len(data)
    text, tail = (data[1 : 1 + size], memoryview(data[1 + size :])) if size < len(data) else (data, None)
    with contextlib.suppress(InferstreamError):
        build_request(*load_request(text), tail)


def grpc_message(data: bytes) -> None:
    try:
        request = parse_request(InferRequests.FromString(data))
        for tensor in request.inputs:
            tensor.data.check(tensor.datatype, tensor.shape)
    except (DecodeError, InferstreamError, ValueError):
        pass


def http1_head(data: bytes) -> None:
    with contextlib.suppress(RequestRefused):
        parse_head(data + END)


def chunked_body(data: bytes) -> None:
    """The pieces are the same however the bytes arrive."""
    found = []
    for size in (len(data) or 1, 1, 7):
        body, unread, pieces = ChunkedBody(), bytearray(), []
        try:
            for start in range(0, len(data), size):
                unread += data[start : start + size]
                pieces += body.take(unread)
        except RequestRefused:
            pieces.append(b"refused")
        found.append((b"".join(pieces), body.ended))
    assert len({ended for _, ended in found}) == 1, found


def header_blocks(data: bytes) -> None:
    decoder = Decoder(4096, 65536)
    try:
        for block in data.split(b"\xff\xfe\xfd"):
            decoder.decode(block)
    except HpackError:
        pass


def http2_connection(data: bytes) -> None:
    async def feed() -> None:
        served = Served()
        octets = frames.PREFACE + frames.frame(frames.SETTINGS, 0, 0, b"") + data
        for start in range(0, len(octets), 50):
            if served.transport.closed:
                break
            served.connection.data_received(octets[start : start + 50])

    asyncio.run(feed())


PARSERS: dict[str, Callable[[bytes], None]] = {
    each.__name__: each
    for each in (json_body, grpc_message, http1_head, chunked_body, header_blocks, http2_connection)
}


def seeds(name: str, choose: random.Random) -> list[bytes]:
    """Bytes to begin with."""
    texts = [mutations.text(choose)[:2000] for _ in range(50)]
    if name == "json_body":
        return [b"\xff" + text for text in texts]
    if name == "http1_head":
        return [b"POST /v2/models/m/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 1", b"GET * HTTP/1.0"]
    if name == "chunked_body":
        return [b"3;a=b\r\nabc\r\n0\r\nx: y\r\n\r\n", b"1\r\na\r\n0\r\n\r\n"]
    if name == "grpc_message":
        return [mutations.message(choose) for _ in range(50)]
    block = encode(
        [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/stream"), (b":authority", b"a")]
    )
    if name == "header_blocks":
        return [block, block + b"\xff\xfe\xfd" + block]
    data = frames.frame(frames.DATA, 1, 1, b"data")
    return [
        frames.headers(1, block, False) + data,
        frames.headers(1, block, True) + frames.ping(bytes(8), False),
    ]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=100_000, help="inputs for each parser")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("parser", nargs="?", choices=PARSERS, help="this one alone, in this process")
    given = options.parse_args()
    if given.parser is None:
        command = [
            sys.executable,
            "-m",
            "scripts.fuzz.parsers",
            f"--runs={given.runs}",
            f"--seed={given.seed}",
        ]
        codes = {name: subprocess.run([*command, name]).returncode for name in PARSERS}
        print(
            *(f"{name}: {'found something' if code else 'nothing found'}" for name, code in codes.items()),
            sep="\n",
        )
        return 1 if any(codes.values()) else 0
    with tempfile.TemporaryDirectory() as folder:
        for number, seed in enumerate(seeds(given.parser, random.Random(given.seed))):
            Path(folder, str(number)).write_bytes(seed)
        flags = [f"-runs={given.runs}", f"-seed={given.seed}", "-max_len=4096", "-timeout=10", "-verbosity=1"]
        atheris.Setup([sys.argv[0], *flags, f"-artifact_prefix={folder}/", folder], PARSERS[given.parser])
        atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())

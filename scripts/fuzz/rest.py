"""Wrong requests over HTTP, byte by byte, and what is a fault in their answers."""

import asyncio
import contextlib
import gzip
import random
import re

from . import corpus, mutations
from .run import Run

PATHS = [
    "/v2/models/{}/infer", "/v2/models/{}/infer_stream", "/v2/models/{}/generate", "/v2/models/{}/generate_stream",
    "/v2/models/{}/versions/1/infer", "/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses",
    "/v1/audio/transcriptions", "/v1/audio/speech", "/v1/images/generations",
    "/generate", "/generate_stream", "/rpc", "/v2/repository/index", "/v2/models/{}", "/v2/health/ready", "/metrics",
    "/v2", "/docs", "/v2/models/stats", "/v2/requests/a", "/proto", "/%2e%2e/x", "/v2/models/%00/infer",
]  # fmt: skip
MODELS = ["words", "add", "total", "echo", "nothing"]
METHODS = ["POST", "POST", "POST", "POST", "GET", "DELETE", "PUT", "HEAD", "OPTIONS", "BREW"]
HEADERS = [
    "Content-Encoding: gzip", "Content-Encoding: br", "Accept-Encoding: gzip", "X-Request-Timeout: 5", "Expect: x",
    "X-Request-Timeout: -1", "X-Request-Priority: 9", "X-Request-Priority: x", "X-Items-Per-Second: 1e-300",
    "Inference-Header-Content-Length: 10", "Inference-Header-Content-Length: -1", "Prefer: resumable",
    "Last-Event-ID: 1", "X-Stream-Dialect: triton", "Connection: close", "Content-Type: multipart/form-data",
    "Content-Type: text/plain", "X-Request-Id: a", "Origin: null", "Transfer-Encoding: gzip, chunked",
    "X-Request-Timeout: nan", "Accept: text/event-stream", "Authorization: Bearer x", "Upgrade: h2c",
]  # fmt: skip
ALLOWED = {501, 504}
"""Server errors that are right: a transfer coding that the server does not know, and a deadline of the client's own."""

ENOUGH = 2**20
"""Bytes of an answer after which the client leaves: some streams have no end."""


def request(choose: random.Random) -> bytes:
    """One request as bytes: every second one is of the corpus."""
    if choose.random() < 0.5:
        return corpus.mutated_http(choose)
    body = mutations.text(choose)
    headers = [line for line in HEADERS if choose.random() < 0.06]
    if "Content-Encoding: gzip" in headers and choose.random() < 0.8:
        body = gzip.compress(body, 1)
    if choose.random() < 0.15:
        body += mutations.raw_elements(choose)
    framing = f"Content-Length: {len(body)}"
    if choose.random() < 0.15:
        size = choose.choice([1, 7, 4096])
        pieces = [body[start : start + size] for start in range(0, min(len(body), 200 * size), size)]
        body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
        framing = "Transfer-Encoding: chunked"
    path = choose.choice(PATHS).format(choose.choice(MODELS))
    head = "\r\n".join([f"{choose.choice(METHODS)} {path} HTTP/1.1", "Host: 127.0.0.1", *headers, framing])
    found = head.encode("latin-1") + b"\r\n\r\n" + body
    if choose.random() < 0.1:
        end = found.index(b"\r\n\r\n")
        found = mutations.broken(found[:end], choose) + found[end:]
    return found


async def fuzz(port: int, seed: int, run: Run) -> None:
    """Send requests until the run is over."""
    choose = random.Random(seed)
    while not run.over:
        text = request(choose)
        try:
            answer = await asyncio.wait_for(_ask(port, text, choose), 20)
        except TimeoutError:
            run.seen["http no answer"] += 1  # a body that was announced and not sent waits for body_timeout
            continue
        for status in map(int, re.findall(rb"^HTTP/1\.1 (\d{3})", answer, re.M)):
            run.seen[f"http {status}"] += 1
            if status >= 500 and status not in ALLOWED:
                run.fault(f"http {answer[:500].decode('latin-1')!r}", text)
        if b'"code":"internal"' in answer:
            run.fault(f"http stream error {answer[-300:].decode('latin-1')!r}", text)


async def _ask(port: int, text: bytes, choose: random.Random) -> bytes:
    """What the server says to a request before it closes or is silent for a moment."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    found = b""
    try:
        with contextlib.suppress(ConnectionError):
            writer.write(text)
            if choose.random() < 0.05:
                return found  # a client that leaves
            while piece := await asyncio.wait_for(reader.read(65536), 1.0 if found else 2.0):
                found += piece
                if len(found) > ENOUGH or _complete(text, found):
                    break
    except TimeoutError:
        pass
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    return found


def _complete(text: bytes, found: bytes) -> bool:
    head, end, body = found.partition(b"\r\n\r\n")
    if not end:
        return False
    if text.startswith(b"HEAD ") or re.match(rb"HTTP/1\.1 (1|204|304)", head):
        return True
    length = re.search(rb"content-length: (\d+)", head, re.I)
    return len(body) >= int(length[1]) if length else body.endswith(b"0\r\n\r\n")

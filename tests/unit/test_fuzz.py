"""The fuzzers' judgement: what they take for a fault, and the requests that they make of the corpus."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from scripts.fuzz import corpus, rest
from scripts.fuzz.run import OWN, Run


@asynccontextmanager
async def answering(answer: bytes) -> AsyncIterator[int]:
    """A server that answers whatever it is sent; its port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65536)
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n", True),
        (b'HTTP/1.1 200 OK\r\ncontent-length: 30\r\n\r\ndata: {"code":"internal"}     ', True),
        (b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n", False),
        (b"HTTP/1.1 504 Gateway Timeout\r\ncontent-length: 0\r\n\r\n", False),
        (b"HTTP/1.1 500 No\r\ncontent-length: 25\r\n\r\nModel stream failed on x.", False),
    ],
)
async def test_server_error_is_a_failure_unless_raised_by_a_model(answer: bytes, found: bool) -> None:
    async with answering(answer) as port:
        run = Run(requests=20)
        await rest.fuzz(port, 1, run)
    assert run.over
    assert bool(run.faults) is found


def test_failure_of_an_infallible_function_is_reported() -> None:
    assert OWN.search("Model running-sum failed on request i; the server's log says why.")
    assert not OWN.search("Model add failed on request i; the server's log says why.")


def test_corpus_requests_are_mutated_and_stay_framed() -> None:
    choose = random.Random(1)
    made = [corpus.mutated_http(choose) for _ in range(300)]
    assert len({*made} - {*corpus.http_requests()}) > 250
    framed = 0
    for request in made:
        head, _, body = request.partition(b"\r\n\r\n")
        framed += b"\r\nContent-Length: %d" % len(body) in head
    assert framed > 100
    assert corpus.rpcs()
    assert corpus.socket_messages()


def test_document_is_mutated_in_one_or_two_places() -> None:
    body = json.dumps({"inputs": [{"name": "x", "shape": [1]}]}).encode()
    assert all(corpus.mutated(body, random.Random(seed)) for seed in range(50))
    assert corpus.mutated(b"[" * 100_000, random.Random(1)), "deeper than a document may be"

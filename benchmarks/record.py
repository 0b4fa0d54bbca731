"""What the recorder costs a request and a token: CPU time of all threads, with an exchange that does nothing."""

import asyncio
import json
import tempfile
import time
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

from inferstream.dataplane.server_parts import ServerParts
from inferstream.plugins.record.stage import record_edge
from inferstream.settings import Settings
from inferstream.telemetry.metrics import Meters

ROUNDS = 5
TOKENS = 200
STREAMS = 200
REQUESTS = 2_000
EVENT = b'data: {"text_output": "word ", "model_name": "m", "model_version": ""}\n\n'
BODY = b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [2], "data": [1.0, 2.0]}]}'
HEADERS = [(b"content-type", b"application/json"), (b"host", b"localhost"), (b"user-agent", b"bench")]


class Exchange:
    """An exchange without a client."""

    headers = HEADERS
    head = task = None

    def body(self, limit: int) -> bytes:
        return BODY

    def respond(self, status: int, headers: Any, body: bytes) -> None: ...

    def open(self, headers: Any) -> None: ...

    def send(self, chunk: bytes, last: bool = False) -> None: ...


async def request(exchange: Any, route: Any, method: str, query: bytes) -> int:
    exchange.body(1)
    exchange.respond(200, HEADERS, BODY)
    return 200


async def stream(exchange: Any, route: Any, method: str, query: bytes) -> int:
    exchange.body(1)
    exchange.open(HEADERS)
    for number in range(TOKENS):
        exchange.send(EVENT)
        if number % 20 == 0:
            await asyncio.sleep(0)
    return 200


def seconds(serve: Any, times: int) -> float:
    """CPU seconds of all threads of the process, a second for the file included."""
    route = SimpleNamespace(dialect=SimpleNamespace(name="v2"), model="m", version=None, template="/m")

    async def run() -> None:
        for _ in range(times):
            await serve(Exchange(), route, "POST", b"")

    began = time.process_time()
    asyncio.run(run())
    time.sleep(1)
    return time.process_time() - began


def main() -> None:
    figures: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for bodies in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "record.jsonl"
                settings = Settings(record={"path": str(path), "bodies": bodies})
                edge = record_edge(ServerParts(settings, Meters()))
                assert edge is not None

                for name, serve, times, each in (
                    ("request", request, REQUESTS, 1),
                    ("token", stream, STREAMS, TOKENS),
                ):
                    bare = seconds(serve, times)
                    cost = seconds(edge.http(serve), times) - bare
                    figures.setdefault(f"{name}, bodies {bodies}", []).append(cost / times / each * 1e6)
    print(json.dumps({name: round(median(values), 2) for name, values in figures.items()}, indent=1))


if __name__ == "__main__":
    main()

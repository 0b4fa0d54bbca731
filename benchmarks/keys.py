"""What keys cost a request and a token, in process: the dataplane with and without them, interleaved."""

import argparse
import asyncio
import hashlib
import json
import os
import secrets
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from pathlib import Path
from time import process_time

from rich.console import Console
from rich.table import Table

from inferstream import App
from inferstream.dataplane.call import Operation
from inferstream.dataplane.caller import Caller, SplitHeaders
from inferstream.server.application import Application
from inferstream.types import Headers, InferenceRequest, RequestInput

KEY = f"ifs_bench_{secrets.token_urlsafe(32)}"
HEADERS = [
    (b"host", b"127.0.0.1:8080"),
    (b"accept", b"*/*"),
    (b"accept-encoding", b"gzip, deflate"),
    (b"user-agent", b"python-httpx/0.27"),
    (b"content-type", b"application/json"),
    (b"content-length", b"83"),
    (b"authorization", f"Bearer {KEY}".encode()),
]
LIMITS = {"requests_per_second": 1e6, "in_flight": 100, "tokens_per_minute": 10**12}
_heads: dict[Application, SplitHeaders] = {}

ITEMS = 1000
"""Tokens of a stream."""

app = App()


@app.model
async def double(n: int) -> int:
    return 2 * n


@app.model
async def count(n: int) -> AsyncIterator[int]:
    for each in range(n):
        yield each


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=60)
    options.add_argument("--requests", type=int, default=100, help="of one measurement")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(measure(Path(folder), given.rounds, given.requests))
    table = Table("server", "µs a request", "more", "µs a token", "more")
    bare = found["no keys"]
    for name, (request, token) in found.items():
        table.add_row(
            name, f"{request:.2f}", f"{request - bare[0]:.2f}", f"{token:.3f}", f"{token - bare[1]:.3f}"
        )
    Console().print(table)


async def measure(folder: Path, rounds: int, requests: int) -> dict[str, tuple[float, float]]:
    """Microseconds of CPU of a request and of a token, by the kind of server."""
    settings = {
        "no keys": {},
        "a key": {"keys_file": _keys(folder / "keys.json", {})},
        "a key with limits": {"keys_file": _keys(folder / "limits.json", LIMITS)},
        "with the audit log too": {
            "keys_file": _keys(folder / "limits.json", LIMITS),
            "audit_log": os.devnull,
        },
    }
    applications = {name: Application(app, **each) for name, each in settings.items()}
    figures: dict[str, list[tuple[float, float]]] = {name: [] for name in applications}
    for application in applications.values():
        await application.start()
        _heads[application] = application._backend.dataplane.access.split(HEADERS)
    try:
        for _ in range(rounds):
            for name, application in applications.items():
                figures[name].append(
                    (
                        await _cpu(lambda: _call(application), requests),  # noqa: B023
                        await _cpu(lambda: _stream(application), max(requests // 50, 1)) / ITEMS,  # noqa: B023
                    )
                )
    finally:
        for application in applications.values():
            await application.stop()
    return {
        name: (_tenth(request for request, _ in each), _tenth(token for _, token in each))
        for name, each in figures.items()
    }


def _tenth(figures: Iterable[float]) -> float:
    """The figure below which a tenth is: other work on the machine only adds."""
    found = sorted(figures)
    return found[len(found) // 10]


def _keys(path: Path, limits: dict[str, float]) -> str:
    entry = {"id": "bench", "principal": "bench", "sha256": hashlib.sha256(KEY.encode()).hexdigest()}
    rights = {"scopes": ["infer", "stream"], "models": ["*"], "limits": limits}
    path.write_text(json.dumps({"version": 1, "keys": [entry | rights]}))
    return str(path)


async def _cpu(work: Callable[[], Coroutine[None, None, None]], times: int) -> float:
    """Microseconds of CPU that each of so many calls takes."""
    began = process_time()
    for _ in range(times):
        await work()
    return (process_time() - began) / times * 1e6


async def _call(application: Application) -> None:
    caller = _caller(application)
    admission = application.models.admit("double", None, caller)
    await admission.open(Operation.INFER, _request(3))


async def _stream(application: Application) -> None:
    caller = _caller(application)
    admission = application.models.admit("count", None, caller)
    async with await admission.open(Operation.STREAM, _request(ITEMS)) as reply:
        async for _ in reply:
            pass


def _caller(application: Application) -> Caller:
    """The client of a request whose head the port remembers, as it does of one that a client repeats."""
    public, shown = _heads[application]
    return Caller(Headers(public), "rest", None, shown)


def _request(n: int) -> InferenceRequest:
    return InferenceRequest(inputs=[RequestInput(name="n", datatype="INT64", shape=[1], data=[n])])


if __name__ == "__main__":
    main()

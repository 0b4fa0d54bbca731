"""An endpoint picker over three servers of unequal speed, against random choice; then a drain in the middle.

The picker reads as that of the Gateway API Inference Extension does: one series of each name, every 50 ms, and
readiness as Kubernetes would. It sends a call to the server with the fewest waiting calls, then the fewest running.
"""

import argparse
import asyncio
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import httpx

from tests.serving import Running, write_model

SLOTS = 4
"""Calls that each server runs at once."""
SECONDS = (0.02, 0.06, 0.18)
"""Seconds of a call on each server. Together they serve 289 calls a second, the slowest of them 22."""
TICK = 0.05
"""Seconds from one look of the picker to the next."""

CODE = """
import asyncio
from inferstream import MLModel
from inferstream.types import InferenceResponse


class Timed(MLModel):
    async def predict(self, payload):
        await asyncio.sleep(self.settings.parameters.extra["seconds"])
        return InferenceResponse(model_name=self.name, outputs=[])
"""


class Seen(NamedTuple):
    ready: bool
    waiting: float
    running: float


class Endpoint:
    """A server as the picker sees it."""

    def __init__(self, server: Running) -> None:
        self.server = server
        self.client = httpx.AsyncClient(
            base_url=server.url, timeout=60, limits=httpx.Limits(max_connections=None)
        )
        self.seen = Seen(True, 0.0, 0.0)
        self.sent = 0

    async def watch(self) -> None:
        while True:
            try:
                ready = (await self.client.get("/v2/health/ready")).status_code == 200
                lines = (await self.client.get("/metrics/load")).text.splitlines()
                values = dict(line.split(" ") for line in lines if not line.startswith("#"))
                waiting, running = values["inferstream_waiting"], values["inferstream_running"]
                self.seen, self.sent = Seen(ready, float(waiting), float(running)), 0
            except httpx.TransportError:
                self.seen = Seen(False, 0.0, 0.0)
            await asyncio.sleep(TICK)


def by_load(ready: list[Endpoint]) -> Endpoint:
    """The least loaded endpoint. What was sent since the last look counts, or all calls of a tick meet in one."""
    return min(
        ready, key=lambda each: (each.seen.waiting + max(each.seen.running + each.sent - SLOTS, 0), each.sent)
    )


class Figures(NamedTuple):
    calls: int
    failed: int
    p50: float
    p99: float


async def run(
    endpoints: list[Endpoint],
    pick: Callable[[list[Endpoint]], Endpoint],
    rate: float,
    seconds: float,
    drain: Endpoint | None = None,
) -> Figures:
    took: list[float] = []
    failed = 0

    async def call(endpoint: Endpoint) -> None:
        nonlocal failed
        began = time.perf_counter()
        try:
            response = await endpoint.client.post("/v2/models/timed/infer", json={"inputs": []})
            failed += response.status_code != 200
        except httpx.TransportError:
            failed += 1
        took.append(time.perf_counter() - began)

    watching = [asyncio.create_task(endpoint.watch()) for endpoint in endpoints]
    calls: list[asyncio.Task[None]] = []
    loop = asyncio.get_running_loop()
    due, end = loop.time(), loop.time() + seconds
    while due < end:
        await asyncio.sleep(max(due - loop.time(), 0))
        if drain is not None and loop.time() > end - seconds / 2:
            drain.server.begin_stop()
            drain = None
        endpoint = pick([each for each in endpoints if each.seen.ready])
        endpoint.sent += 1
        calls.append(asyncio.create_task(call(endpoint)))
        due += random.expovariate(rate)
    await asyncio.gather(*calls)
    for task in watching:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    took.sort()
    return Figures(len(took), failed, statistics.median(took), took[int(len(took) * 0.99)])


async def measure(servers: list[Running], rate: float, seconds: float, rounds: int) -> dict[str, Figures]:
    endpoints = [Endpoint(server) for server in servers]
    policies: dict[str, Callable[[list[Endpoint]], Endpoint]] = {"random": random.choice, "load": by_load}
    measured: dict[str, list[Figures]] = {name: [] for name in policies}
    for _ in range(rounds):
        for name, pick in policies.items():
            measured[name].append(await run(endpoints, pick, rate, seconds))
    found = {
        name: sorted(figures, key=lambda each: each.p99)[rounds // 2] for name, figures in measured.items()
    }
    # Where the next request goes is known before the drained server has stopped listening.
    found["load, one drained"] = await run(endpoints, by_load, rate / 2, seconds, endpoints[1])
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rate", type=float, default=120.0, help="calls a second")
    options.add_argument("--seconds", type=float, default=8.0, help="length of one measurement")
    options.add_argument("--rounds", type=int, default=3, help="measurements of each policy, interleaved")
    given = options.parse_args()
    servers = []
    with tempfile.TemporaryDirectory() as root:
        try:
            for number, seconds in enumerate(SECONDS):
                folder = Path(root) / f"models{number}"
                settings = {"max_concurrency": SLOTS, "parameters": {"extra": {"seconds": seconds}}}
                write_model(folder, "timed", "timed.Timed", CODE, name="timed", **settings)
                (folder / "settings.json").write_text(json.dumps({"shutdown_delay": 1.0}))
                servers.append(Running(folder))
            found = asyncio.run(measure(servers, given.rate, given.seconds, given.rounds))
        finally:
            for server in servers:
                server.stop(30)
    for name, figures in found.items():
        print(f"{name:18} {figures.calls:5} calls, {figures.failed} failed", end=", ")
        print(f"p50 {figures.p50 * 1000:6.0f} ms, p99 {figures.p99 * 1000:6.0f} ms")
    ratio = found["load"].p99 / found["random"].p99
    print(f"p99 of load by that of random: {ratio:.2f}")
    sys.exit(ratio > 0.5 or any(figures.failed for figures in found.values()))


if __name__ == "__main__":
    main()

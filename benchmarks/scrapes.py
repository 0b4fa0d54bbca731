"""What a look at the load costs a server of 100 models, over one connection, beside a look at its liveness."""

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from . import load
from .footprint import write_models
from .servers import Target, start_ours, stop

MODELS = 100
PAUSE = 0.05
"""Seconds from one look of an endpoint picker to the next."""
LIVE, LOAD = (
    f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    for path in ("/v2/health/live", "/metrics/load")
)

Costs = dict[str, float]
"""CPU microseconds of a look, of all processes and threads: `live` and `load` one after the other, and `paced`."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=2.0, help="length of one measurement")
    options.add_argument("--rounds", type=int, default=5, help="measurements of each cell, interleaved")
    given = options.parse_args()
    cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cpus[-1]})
    with asyncio.Runner(loop_factory=load.wakeful_loop) as runner:
        for workers, costs in costs_of_scrapes(runner, {cpus[0]}, given.rounds, given.seconds).items():
            cells = ", ".join(f"{name} {cost:.0f} µs" for name, cost in costs.items())
            print(f"{workers} workers: {cells}")


def costs_of_scrapes(runner: asyncio.Runner, cpus: set[int], rounds: int, seconds: float) -> dict[int, Costs]:
    """Medians by worker processes, all servers and kinds of looks in turn. What idling costs is taken off."""
    found: dict[int, list[Costs]] = {0: [], 2: []}
    with tempfile.TemporaryDirectory() as folder:
        write_models(Path(folder), MODELS)
        targets = {workers: start_ours(cpus, str(workers), workers, Path(folder)) for workers in found}
        try:
            for workers, target in [*targets.items()] * rounds:
                found[workers].append(runner.run(_once(target, seconds)))
        finally:
            stop([*targets.values()])
    return {
        workers: {name: statistics.median(once[name] for once in each) for name in each[0]}
        for workers, each in found.items()
    }


async def _once(target: Target, seconds: float) -> Costs:
    pid, port = target.process.pid, target.ports["rest"]
    idle = await _cpu(pid, lambda: asyncio.sleep(seconds, 1)) / seconds

    async def cost(look: bytes, pause: float = 0.0) -> float:
        return await _cpu(pid, lambda: looked(port, look, seconds, pause), idle * seconds) * 1e6

    return {
        "live": await cost(LIVE),
        "load": await cost(LOAD),
        "live, paced": await cost(LIVE, PAUSE),
        "load, paced": await cost(LOAD, PAUSE),
    }


async def _cpu(pid: int, work: Callable[[], Awaitable[int]], idle: float = 0.0) -> float:
    """Seconds of CPU for each unit of this work."""
    before = run_seconds(pid)
    units = await work()
    return (run_seconds(pid) - before - idle) / units


async def looked(port: int, request: bytes, seconds: float, pause: float) -> int:
    """How many looks were answered on one connection, with so many seconds from one to the next."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    due = time.perf_counter()
    until, answered = due + seconds, 0
    while (now := time.perf_counter()) < until:
        await asyncio.sleep(due - now)
        writer.write(request)
        await load.read_answer(reader)
        answered, due = answered + 1, due + pause
    writer.close()
    return answered


def run_seconds(pid: int) -> float:
    """Seconds that a process and its children ran so far, exactly: paced looks take few of a clock's ticks."""
    tasks = [*Path(f"/proc/{pid}/task").iterdir()]
    children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    own = sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9
    return own + sum(map(run_seconds, children))


if __name__ == "__main__":
    main()

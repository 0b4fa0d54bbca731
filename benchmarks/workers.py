"""What the way through a worker process costs: the same models in the server and in workers, interleaved.

CPU is that of the server and its workers together.
"""

import argparse
import asyncio
import json
import os
import statistics
import time
from pathlib import Path

import numpy as np
import uvloop
from rich.console import Console
from rich.table import Table

from . import load
from .servers import Target, start_ours, tree_cpu
from .works import CALLERS

LARGE = {"600 KB": (1, 3, 224, 224), "16 MB": (4, 1024, 1024)}
BURNING = 8


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=2.0, help="length of one measurement")
    options.add_argument("--rounds", type=int, default=5, help="measurements of each cell, interleaved")
    options.add_argument("--json", type=Path, help="write the figures to this file")
    given = options.parse_args()
    cpus = sorted(os.sched_getaffinity(0))
    targets = [start_ours({cpus[0]}, name, workers) for name, workers in (("in process", 0), ("worker", 1))]
    os.sched_setaffinity(0, {cpus[-1]})
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            figures = measure(runner, targets, given.rounds, given.seconds)
    finally:
        for target in targets:
            target.process.terminate()
            target.process.wait(10)
    os.sched_setaffinity(0, set(cpus))
    figures["health"] = {f"{workers} workers": health(workers, cpus) for workers in (0, 2)}
    show(figures)
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1))


def measure(runner: asyncio.Runner, targets: list[Target], rounds: int, seconds: float) -> dict:
    """CPU microseconds per unit and units per second, medians over the rounds, by work and target."""
    works = {
        "REST infer, FP32 [1,4]": lambda target, length: load.rest_infer(
            target.ports["rest"], CALLERS, length
        ),
        "gRPC infer, FP32 [1,4]": lambda target, length: load.grpc_infer(
            target.ports["grpc"], CALLERS, length
        ),
        "SSE token": lambda target, length: load.sse_tokens(target.ports["rest"], CALLERS, length),
        "gRPC stream message": lambda target, length: load.grpc_tokens(target.ports["grpc"], CALLERS, length),
    }
    for name, shape in LARGE.items():
        array = np.random.default_rng(0).random(shape, np.float32)
        callers = 8 if array.nbytes < 2**20 else 2
        works[f"REST binary, {name}"] = lambda target, length, array=array, callers=callers: load.rest_binary(
            target.ports["rest"], array, callers, length
        )
    cells: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for index in range(rounds + 1):
        for work, run in works.items():
            for target in targets:
                before, started = tree_cpu(target.process.pid), time.perf_counter()
                units = runner.run(run(target, seconds if index else 0.5))
                took = time.perf_counter() - started
                cpu = tree_cpu(target.process.pid) - before
                if index:  # the first round warms up
                    cells.setdefault((work, target.name), []).append((cpu / units * 1e6, units / took))
    figures: dict = {}
    for (work, target), found in cells.items():
        cpu, rate = (statistics.median(column) for column in zip(*found, strict=True))
        figures.setdefault(work, {})[target] = {"cpu_us": round(cpu, 2), "per_second": round(rate, 1)}
    return figures


def health(workers: int, cpus: list[int]) -> dict[str, float]:
    """Milliseconds that `/v2/health/live` takes while eight requests burn CPU in the models."""
    target = start_ours(set(cpus), "burning", workers)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            times = runner.run(load.health_under_fire(target.ports["rest"], BURNING, 400))
    finally:
        target.process.terminate()
        target.process.wait(10)
    times.sort()
    return {
        "p50_ms": round(times[len(times) // 2] * 1e3, 2),
        "p99_ms": round(times[int(len(times) * 0.99)] * 1e3, 2),
    }


def show(figures: dict) -> None:
    table = Table(title="in the server and through one worker (both on one core, load on another)")
    for column in ("work", "in process µs", "worker µs", "added µs", "in process /s", "worker /s", "rate"):
        table.add_column(column, justify="left" if column == "work" else "right")
    for work, found in figures.items():
        if work == "health":
            continue
        here, there = found["in process"], found["worker"]
        table.add_row(
            work,
            f"{here['cpu_us']:.1f}",
            f"{there['cpu_us']:.1f}",
            f"{there['cpu_us'] - here['cpu_us']:.1f}",
            f"{here['per_second']:,.0f}",
            f"{there['per_second']:,.0f}",
            f"{there['per_second'] / here['per_second']:.0%}",
        )
    console = Console(width=120)
    console.print(table)
    for name, found in figures["health"].items():
        console.print(
            f"health while {BURNING} requests burn, {name}: p50 {found['p50_ms']} ms, p99 {found['p99_ms']} ms"
        )


if __name__ == "__main__":
    main()

"""The serving path beside its floors: bare uvicorn and bare grpc.aio, interleaved in one run.

Server CPU per unit of work is the figure to trust; throughput on a shared machine is not.
"""

import argparse
import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import NamedTuple

import uvloop
from rich.console import Console
from rich.table import Table

from . import load

HERE = Path(__file__).parent
CALLERS = 32


class Target(NamedTuple):
    name: str
    process: subprocess.Popen
    ports: dict[str, int]


class Work(NamedTuple):
    name: str
    unit: str
    transport: str
    goal: float
    run: Callable[[int, int, float], Coroutine[None, None, int]]


WORKS = (
    Work("REST infer, FP32 [1,4]", "request", "rest", 2.0, load.rest_infer),
    Work("gRPC infer, FP32 [1,4]", "request", "grpc", 1.25, load.grpc_infer),
    Work("REST JSON, FP32 [1,3,224,224]", "request", "rest", 0.5, load.rest_image),
    Work("SSE, 256 tokens", "token", "rest", 1.5, load.sse_tokens),
    Work("gRPC stream, 256 messages", "message", "grpc", 1.25, load.grpc_tokens),
)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=2.0, help="length of one measurement")
    options.add_argument("--rounds", type=int, default=5, help="measurements of each cell, interleaved")
    options.add_argument("--json", type=Path, help="write the figures to this file")
    given = options.parse_args()
    cpus = sorted(os.sched_getaffinity(0))
    servers, callers = {cpus[0]}, {cpus[-1]}
    targets = start(servers)
    os.sched_setaffinity(0, callers)
    try:
        figures = measure(targets, given.rounds, given.seconds)
    finally:
        for target in targets:
            target.process.terminate()
            target.process.wait(10)
    show(figures, len(cpus))
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1))


def start(cpus: set[int]) -> list[Target]:
    def launch(*command: str, **options) -> subprocess.Popen:
        process = subprocess.Popen([sys.executable, *command], cwd=HERE.parent, **options)
        os.sched_setaffinity(process.pid, cpus)
        return process

    rest, rpc = free_port(), free_port()
    bare = [
        Target("bare", launch("-m", "benchmarks.bare", "rest", str(rest)), {"rest": rest}),
        Target("bare", launch("-m", "benchmarks.bare", "grpc", str(rpc)), {"grpc": rpc}),
    ]
    time.sleep(1)
    return [*bare, start_ours(cpus, "inferstream")]


def start_ours(cpus: set[int], name: str, workers: int = 0, models: Path = HERE / "models") -> Target:
    """A server on these cores, started as a user would."""
    ports = [part for kind in ("http", "grpc", "metrics") for part in (f"--{kind}-port", "0")]
    ours = subprocess.Popen(
        [sys.executable, "-m", "inferstream", "start", str(models), *ports],
        cwd=HERE.parent,
        env={**os.environ, "INFERSTREAM_PARALLEL_WORKERS": str(workers)},
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, cpus),
    )
    found: dict[str, int] = {}
    for line in ours.stderr:
        if match := re.match(r"(REST|gRPC) .*?:(\d+)(/docs)?$", line.strip()):
            found[match[1].lower()] = int(match[2])
        if "grpc" in found:
            break
    return Target(name, ours, found)


def free_port() -> int:
    import socket

    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(targets: list[Target], rounds: int, seconds: float) -> dict[str, dict[str, dict[str, float]]]:
    """CPU microseconds and units per second, medians over the rounds, by work and target."""
    cells: dict[tuple[str, str], list[tuple[float, float]]] = {}
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        for index in range(rounds + 1):
            for work in WORKS:
                for target in targets:
                    if work.transport not in target.ports:
                        continue
                    before, started = cpu_seconds(target.process.pid), time.perf_counter()
                    units = runner.run(
                        work.run(target.ports[work.transport], CALLERS, seconds if index else 0.5)
                    )
                    took = time.perf_counter() - started
                    cpu = cpu_seconds(target.process.pid) - before
                    if index:  # the first round warms up
                        cells.setdefault((work.name, target.name), []).append(
                            (cpu / units * 1e6, units / took)
                        )
    figures: dict[str, dict[str, dict[str, float]]] = {}
    for (work, target), found in cells.items():
        cpu, rate = (statistics.median(column) for column in zip(*found, strict=True))
        figures.setdefault(work, {})[target] = {"cpu_us": round(cpu, 2), "per_second": round(rate)}
    return figures


def show(figures: dict[str, dict[str, dict[str, float]]], cores: int) -> None:
    table = Table(
        title=f"server CPU per unit, {CALLERS} callers, {cores} cores (server on one, load on another)"
    )
    for column in ("work", "unit", "bare µs", "inferstream µs", "ratio", "goal", "bare /s", "inferstream /s"):
        table.add_column(column, justify="left" if column in ("work", "unit") else "right")
    for work in WORKS:
        bare, ours = figures[work.name]["bare"], figures[work.name]["inferstream"]
        ratio = ours["cpu_us"] / bare["cpu_us"]
        table.add_row(
            work.name,
            work.unit,
            f"{bare['cpu_us']:.1f}",
            f"{ours['cpu_us']:.1f}",
            f"{ratio:.2f}",
            f"≤ {work.goal}",
            f"{bare['per_second']:,}",
            f"{ours['per_second']:,}",
        )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()

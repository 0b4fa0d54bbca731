"""What a second front end brings: the same load on one and on two, interleaved, and the CPU of each process.

On two cores the load takes its part of both, so what two front ends could answer with a core each is derived
from what an answer costs, and from how evenly connections are spread. With four cores or more it is measured:
the load then has a core of its own for each front end.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import statistics
import time
from pathlib import Path
from typing import NamedTuple

import uvloop
from rich.console import Console
from rich.table import Table

from . import load
from .servers import Target, cpu_seconds, start_ours

CALLERS = 128
"""Connections of each process that makes load: so many that both front ends get about half."""


class Measured(NamedTuple):
    """Units a second, CPU microseconds of all front ends per unit, and the part of these that the busiest takes."""

    rate: float
    cost: float
    busiest: float


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=2.0, help="length of one measurement")
    options.add_argument("--rounds", type=int, default=5, help="measurements of each cell, interleaved")
    options.add_argument("--json", type=Path, help="write the figures to this file")
    given = options.parse_args()
    cpus = sorted(os.sched_getaffinity(0))
    apart = len(cpus) >= 4
    figures: dict = {"cores": len(cpus), "load apart": apart}
    for workers in (0, 1):
        targets = [
            start_ours(set(cpus[:2]) if apart else set(cpus), f"{count}", workers, frontends=count)
            for count in (1, 2)
        ]
        try:
            where = f"{workers} worker" if workers else "in process"
            figures[where] = measure(targets, set(cpus[2:] if apart else cpus), given.rounds, given.seconds)
        finally:
            for target in targets:
                target.process.terminate()
                target.process.wait(10)
    show(figures)
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1))


def measure(targets: list[Target], cpus: set[int], rounds: int, seconds: float) -> dict:
    """Medians over the rounds, by work and number of front ends."""
    cells: dict[tuple[str, str], list[Measured]] = {}
    for index in range(rounds + 1):
        for work in WORKS:
            for target in targets:
                measured = once(target, work, cpus, seconds if index else 0.5)
                if index:  # the first round warms up
                    cells.setdefault((work, target.name), []).append(measured)
    figures: dict = {}
    for (work, name), found in cells.items():
        medians = Measured(*(statistics.median(column) for column in zip(*found, strict=True)))
        figures.setdefault(work, {})[name] = medians._asdict()
    return figures


def once(target: Target, work: str, cpus: set[int], seconds: float) -> Measured:
    """Load from two processes at once."""
    fronts = front_ends(target)
    with multiprocessing.get_context("spawn").Pool(2, os.sched_setaffinity, (0, cpus)) as pool:
        pool.map(time.sleep, (0.1, 0.1))  # both are there
        before = {pid: cpu_seconds(pid) for pid in fronts}
        started = time.perf_counter()
        units = sum(pool.starmap(make_load, [(work, target.ports["rest"], seconds)] * 2, chunksize=1))
        took = time.perf_counter() - started
    each = [cpu_seconds(pid) - spent for pid, spent in before.items()]
    return Measured(units / took, sum(each) / units * 1e6, max(each) / sum(each))


def make_load(work: str, port: int, seconds: float) -> int:
    """Units answered; runs in a process of its own."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(WORKS[work](port, CALLERS, seconds))


WORKS = {"REST infer, FP32 [1,4]": load.rest_infer, "SSE token": load.sse_tokens}


def front_ends(target: Target) -> list[int]:
    """The processes of a server that answer at its ports."""
    found = [target.process.pid]
    for task in Path(f"/proc/{target.process.pid}/task").glob("*/children"):
        for pid in task.read_text().split():
            if "frontends.front_end" in Path(f"/proc/{pid}/cmdline").read_text():
                found.append(int(pid))
    return found


def show(figures: dict) -> None:
    console = Console(width=120)
    for where in ("in process", "1 worker"):
        table = Table(title=f"one front end and two, models {where}")
        for column in ("work", "1: µs", "2: µs", "1: /s", "2: /s", "2: busiest", "with a core each"):
            table.add_column(column, justify="left" if column == "work" else "right")
        for work, found in figures[where].items():
            one, two = found["1"], found["2"]
            table.add_row(
                work,
                f"{one['cost']:.1f}",
                f"{two['cost']:.1f}",
                f"{one['rate']:,.0f}",
                f"{two['rate']:,.0f}",
                f"{two['busiest']:.0%}",
                f"{one['cost'] / two['cost'] / two['busiest']:.2f} times",
            )
        console.print(table)
    if not figures["load apart"]:
        console.print("the load ran on the server's cores: the rates say nothing of what two cores allow")


if __name__ == "__main__":
    main()

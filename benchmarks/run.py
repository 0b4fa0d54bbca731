"""The serving path beside its floors: bare uvicorn and bare gRPC, interleaved in one run.

Server CPU per unit of work is the figure to trust; throughput on a shared machine is not.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from . import load
from .footprint import paced_streams
from .servers import Target, start_bare, start_functions, start_ours, stop, tree_cpu
from .works import CALLERS, PACED, WORKS, Work

STREAMS = 500

Cell = dict[str, float]
"""`cpu_us` per unit and units `per_second`, medians of all rounds."""

Figures = dict[str, dict[str, Cell]]
"""Cells by work and target."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=2.0, help="length of one measurement")
    options.add_argument("--rounds", type=int, default=5, help="measurements of each cell, interleaved")
    options.add_argument("--all", action="store_true", help="every work, not the quick ones only")
    options.add_argument("--json", type=Path, help="write the figures to this file")
    given = options.parse_args()
    cpus = sorted(os.sched_getaffinity(0))
    works = [work for work in WORKS if work.quick or given.all]
    targets = [
        *start_bare({cpus[0]}),
        start_ours({cpus[0]}, "inferstream"),
        start_functions({cpus[0]}),
    ]
    os.sched_setaffinity(0, {cpus[-1]})
    try:
        with asyncio.Runner(loop_factory=load.wakeful_loop) as runner:
            figures = measure(runner, targets, works, given.rounds, given.seconds)
            streams = paced_beside(runner, targets, given.rounds, given.seconds)
    finally:
        stop(targets)
    show(figures, works, len(cpus))
    show_streams(streams)
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1))


def measure(
    runner: asyncio.Runner, targets: list[Target], works: list[Work], rounds: int, seconds: float
) -> Figures:
    """Each work on each target that does it, in turn, over and over."""
    cells: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for index in range(rounds + 1):
        for work in works:
            for target in targets:
                kind = work.kind(target.name)
                if kind not in target.ports or (target.name == "MLServer" and not work.elsewhere):
                    continue
                print(
                    f"\r\033[Kround {index}: {work.name}, {target.name}", end="", file=sys.stderr, flush=True
                )
                before, started = tree_cpu(target.process.pid), time.perf_counter()
                units = runner.run(work.run(target.ports[kind], seconds if index else 0.5))
                took = time.perf_counter() - started
                cpu = tree_cpu(target.process.pid) - before
                if index:  # the first round warms up
                    cells.setdefault((work.name, target.name), []).append((cpu / units * 1e6, units / took))
    figures: Figures = {}
    for (name, target), found in cells.items():
        cpu, rate = (statistics.median(column) for column in zip(*found, strict=True))
        figures.setdefault(name, {})[target] = {"cpu_us": round(cpu, 2), "per_second": round(rate, 1)}
    return figures


Shares = dict[str, dict[str, float]]
"""Of the tokens of paced streams those that arrived, by kind of streams and server."""


def paced_beside(runner: asyncio.Runner, targets: list[Target], rounds: int, seconds: float) -> Shares:
    """Medians of interleaved rounds."""
    found: dict[tuple[str, str], list[float]] = {}
    for _ in range(rounds):
        for paced in PACED:
            for target in targets:
                name = "bare" if target.name == "bare" else "inferstream"
                if (paced.bare if name == "bare" else paced.transport) not in target.ports:
                    continue
                print(f"\r\033[K{STREAMS} streams, {paced.name}, {name}", end="", file=sys.stderr, flush=True)
                share = paced_streams(runner, target, paced, STREAMS, seconds)["share"]
                found.setdefault((paced.name, name), []).append(share)
    shares: Shares = {}
    for (paced_name, name), each in found.items():
        shares.setdefault(paced_name, {})[name] = statistics.median(each)
    return shares


def show_streams(shares: Shares) -> None:
    table = Table(title=f"{STREAMS} streams of a token each 10 ms: of the ideal tokens")
    for column in ("streams", "bare", "inferstream", "of the bare server's"):
        table.add_column(column, justify="left" if column == "streams" else "right")
    for name, found in shares.items():
        bare, ours = found["bare"], found["inferstream"]
        table.add_row(name, f"{bare:.1%}", f"{ours:.1%}", f"{ours / bare:.1%}")
    Console(width=120).print(table)


def show(figures: Figures, works: list[Work], cores: int) -> None:
    table = Table(
        title=f"server CPU per unit, {CALLERS} callers, {cores} cores (server on one, load on another)"
    )
    for column in ("work", "unit", "bare µs", "inferstream µs", "ratio", "goal", "bare /s", "inferstream /s"):
        table.add_column(column, justify="left" if column in ("work", "unit") else "right")
    for work in works:
        bare, ours = figures[work.name].get("bare"), figures[work.name]["inferstream"]
        if bare is None:
            table.add_row(
                work.name, work.unit, "", f"{ours['cpu_us']:,.1f}", "", "", "", f"{ours['per_second']:,.0f}"
            )
            continue
        ratio = ours["cpu_us"] / bare["cpu_us"]
        table.add_row(
            work.name,
            work.unit,
            f"{bare['cpu_us']:,.1f}",
            f"{ours['cpu_us']:,.1f}",
            f"{ratio:.2f}",
            f"≤ {work.goal}",
            f"{bare['per_second']:,.0f}",
            f"{ours['per_second']:,.0f}",
        )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()

"""What batching brings to a model that costs 5 ms a call whatever the batch: with it and without, interleaved.

The server has one core and the load another. `one at a time` is a model that runs one call at once, as
on an accelerator; otherwise it has its threads. A lone caller shows what batching costs who is alone.
`async def that blocks` is how most models for MLServer are written, with its documentation's 5 ms to wait.
MLServer takes part if `make bench-report` has installed it.
"""

import argparse
import asyncio
import json
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import httpx
from rich.console import Console
from rich.table import Table

from . import load
from .servers import HERE, MLSERVER, Target, start_mlserver, start_ours, tree_cpu

CALLERS = 64
BATCHED = {"max_batch_size": 64, "max_batch_time": 0.001}


MLSERVERS = {"max_batch_size": 64, "max_batch_time": 0.005}


class Variant(NamedTuple):
    name: str
    settings: dict[str, object]
    workers: int
    written: str = "def"


VARIANTS = (
    Variant("off", {}, 0),
    Variant("on", BATCHED, 0),
    Variant("off, one at a time", {"max_concurrency": 1}, 0),
    Variant("on, one at a time", {**BATCHED, "max_concurrency": 1}, 0),
    Variant("on, two at a time", {**BATCHED, "max_concurrency": 2}, 0),
    Variant("on, two workers", {**BATCHED, "worker_concurrency": 1}, 2),
    Variant("on, async def that blocks", MLSERVERS, 0, "async def"),
)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=3.0, help="length of one measurement")
    options.add_argument("--rounds", type=int, default=5, help="measurements of each cell, interleaved")
    options.add_argument("--json", type=Path, help="write the figures to this file")
    given = options.parse_args()
    cpus = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        targets = [start(Path(folder) / str(index), v, {cpus[0]}) for index, v in enumerate(VARIANTS)]
        if MLSERVER.exists():
            targets.append(start_other(Path(folder) / "waits", {cpus[0]}, blocks=False))
            targets.append(start_other(Path(folder) / "blocks", {cpus[0]}, blocks=True))
        os.sched_setaffinity(0, {cpus[-1]})
        try:
            with asyncio.Runner(loop_factory=load.wakeful_loop) as runner:
                figures = measure(runner, targets, given.rounds, given.seconds)
        finally:
            for target in targets:
                target.process.terminate()
                target.process.wait(10)
    show(figures)
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1))


def start(folder: Path, variant: Variant, cpus: set[int]) -> Target:
    """A server with the one model under the name that the load asks for."""
    model = copied(folder, variant.settings)
    rewrite(model, "def predict", f"{variant.written} predict")
    return start_ours(cpus, variant.name, variant.workers, folder)


def start_other(folder: Path, cpus: set[int], blocks: bool) -> Target:
    """MLServer with the same model as `async def`, which waits without blocking or as its users write it."""
    model = copied(folder / "ours", MLSERVERS if blocks else BATCHED)
    rewrite(model, "def predict", "async def predict")
    if not blocks:
        rewrite(model, "import time", "import asyncio")
        rewrite(model, "time.sleep(", "await asyncio.sleep(")
    theirs = folder / "theirs"
    theirs.mkdir()
    name = "MLServer, on, async def that blocks" if blocks else "MLServer, on"
    return start_mlserver(cpus, theirs, folder / "ours")._replace(name=name)


def rewrite(model: Path, old: str, new: str) -> None:
    code = model / "steady.py"
    code.write_text(code.read_text().replace(old, new))


def copied(folder: Path, settings: dict[str, object]) -> Path:
    """The model in a folder of its own, with these settings too."""
    model = Path(shutil.copytree(HERE / "models" / "steady", folder / "doubler"))
    file = model / "model-settings.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "name": "doubler", **settings}))
    return model


def measure(runner: asyncio.Runner, targets: list[Target], rounds: int, seconds: float) -> dict:
    """Medians over the rounds, by variant."""
    cells: dict[str, list[tuple[float, ...]]] = {}
    for index in range(rounds + 1):
        for target in targets:
            port = target.ports["rest"]
            before = tree_cpu(target.process.pid), *batches(port)
            started = time.perf_counter()
            answered = runner.run(load.rest_infer(port, CALLERS, seconds if index else 0.5))
            took = time.perf_counter() - started
            after = tree_cpu(target.process.pid), *batches(port)
            cpu, requests, left = (new - old for new, old in zip(after, before, strict=True))
            lone = runner.run(load.rest_latencies(port, 200 if index else 20))
            if index:  # the first round warms up
                mean = requests / left if left else 0.0
                cells.setdefault(target.name, []).append(
                    (answered / took, cpu / answered * 1e6, mean, statistics.median(lone) * 1e3)
                )
    names = ("per_second", "cpu_us", "batch", "lone_p50_ms")
    return {
        name: {
            key: round(statistics.median(column), 2)
            for key, column in zip(names, zip(*found, strict=True), strict=True)
        }
        for name, found in cells.items()
    }


def batches(port: int) -> tuple[float, float]:
    """Requests that were batched so far, and batches."""
    found = {"inferstream_batch_size_sum": 0.0, "inferstream_batch_size_count": 0.0}
    for line in httpx.get(f"http://127.0.0.1:{port}/metrics").text.splitlines():
        name = line.partition("{")[0]
        if name in found:
            found[name] = float(line.rpartition(" ")[2])
    total, count = found.values()
    return total, count


def show(figures: dict) -> None:
    table = Table(
        title=f"5 ms a call, {CALLERS} callers over REST, max_batch_size 64, max_batch_time 1 or 5 ms"
    )
    for column in ("batching", "requests/s", "CPU µs", "mean batch", "lone p50 ms", "to off"):
        table.add_column(column, justify="left" if column == "batching" else "right")
    for name, found in figures.items():
        table.add_row(
            name,
            f"{found['per_second']:,.0f}",
            f"{found['cpu_us']:.0f}",
            f"{found['batch']:.1f}" if found["batch"] else "",
            f"{found['lone_p50_ms']:.2f}",
            f"{found['lone_p50_ms'] / figures['off']['lone_p50_ms']:.2f}",
        )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()

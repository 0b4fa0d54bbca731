"""What advancing streams together brings, and what it costs: 32 streams beside one after another, over SSE.

The server has one core and the load another. `device` takes 5 ms a step whatever is in it, as an
accelerator does; `char-lm` is the example, which takes so long beside its arithmetic on the core that
also serves, and `arithmetic` the example without that. The costs are those of models that take no time
of the processor, by steps and by a generator for each stream.
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

import uvloop
from rich.console import Console
from rich.table import Table

from . import load
from .servers import HERE, Target, start_ours, tree_cpu

TOGETHER = 32
GOAL = 20
GAINS = ("device", "char-lm", "arithmetic")
COSTS = {
    "paced": "async generators, no work",
    "stepped": "async steps, no work",
    "paced-thread": "generators, no work",
    "stepped-thread": "steps, no work",
    "device-generator": "generators, 5 ms a token",
    "device": "steps, 5 ms a step",
}
TOKENS = {"device": 64, "device-generator": 64, "char-lm": 64, "arithmetic": 64}
"""Tokens in a stream, where they are not 256."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=2.0, help="length of one measurement")
    options.add_argument("--rounds", type=int, default=5, help="measurements of each cell, interleaved")
    options.add_argument("--json", type=Path, help="write the figures to this file")
    given = options.parse_args()
    cpus = sorted(os.sched_getaffinity(0))
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        models = Path(folder) / "models"
        shutil.copytree(HERE / "step_models", models)
        for name in ("char-lm", "arithmetic"):
            shutil.copytree(HERE.parent / "examples" / "char-lm", models / name)
        settings = json.loads((models / "arithmetic" / "model-settings.json").read_text())
        settings |= {"name": "arithmetic", "parameters": {"extra": {"device_seconds": 0}}}
        (models / "arithmetic" / "model-settings.json").write_text(json.dumps(settings))
        targets = [start_ours({cpus[0]}, name, count, models) for name, count in (("here", 0), ("worker", 1))]
        os.sched_setaffinity(0, {cpus[-1]})
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                figures = {
                    target.name: measure(runner, target, given.rounds, given.seconds) for target in targets
                }
        finally:
            for target in targets:
                target.process.terminate()
                target.process.wait(10)
    show(figures)
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1))


async def tokens(port: int, model: str, callers: int, count: int, seconds: float) -> int:
    """How many tokens arrived."""
    request = load.http_request(
        f"/v2/models/{model}/generate_stream",
        {"inputs": [load.PROMPT], "parameters": {"length": count}},
    )

    async def caller() -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        received = 0
        while time.perf_counter() < until:
            writer.write(request)
            answer = await reader.readuntil(b"\r\n0\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 200"), answer[:200]
            assert answer.count(b"data: {") == count, answer[-200:]
            received += count
        writer.close()
        return received

    until = time.perf_counter() + seconds
    return sum(await asyncio.gather(*(caller() for _ in range(callers))))


def measure(runner: asyncio.Runner, target: Target, rounds: int, seconds: float) -> dict:
    """Medians over the rounds: tokens a second and CPU microseconds a token, by model and number of streams."""
    cells: dict[str, dict[int, list[tuple[float, float]]]] = {}
    for index in range(rounds + 1):
        for model in dict.fromkeys((*GAINS, *COSTS)):
            for callers in (1, TOGETHER):
                before, started = tree_cpu(target.process.pid), time.perf_counter()
                length = seconds if index else 0.5
                work = tokens(target.ports["rest"], model, callers, TOKENS.get(model, 256), length)
                count = runner.run(work)
                took, cpu = time.perf_counter() - started, tree_cpu(target.process.pid) - before
                if index:  # the first round warms up
                    found = cells.setdefault(model, {}).setdefault(callers, [])
                    found.append((count / took, cpu / count * 1e6))
    return {
        model: {
            callers: dict(
                zip(("per_second", "cpu_us"), map(statistics.median, zip(*found, strict=True)), strict=True)
            )
            for callers, found in by_callers.items()
        }
        for model, by_callers in cells.items()
    }


def show(figures: dict) -> None:
    gains = Table(
        title=f"tokens a second: one stream after another, and {TOGETHER} at once (goal {GOAL} times)"
    )
    for column in ("model", "runs", "one by one", "together", "times", "CPU µs a token", "together "):
        gains.add_column(column, justify="left" if column in ("model", "runs") else "right")
    costs = Table(title="CPU µs a token, server and worker together")
    for column in ("model", "runs", "1 stream", f"{TOGETHER} streams"):
        costs.add_column(column, justify="left" if column in ("model", "runs") else "right")
    for where, models in figures.items():
        for model in GAINS:
            one, many = models[model][1], models[model][TOGETHER]
            times = many["per_second"] / one["per_second"]
            rates = [f"{found['per_second']:,.0f}" for found in (one, many)]
            gains.add_row(
                model, where, *rates, f"{times:.1f}", f"{one['cpu_us']:.0f}", f"{many['cpu_us']:.0f}"
            )
        for model, name in COSTS.items():
            costs.add_row(name, where, *(f"{models[model][n]['cpu_us']:.1f}" for n in (1, TOGETHER)))
    console = Console(width=120)
    console.print(gains)
    console.print(costs)


if __name__ == "__main__":
    main()

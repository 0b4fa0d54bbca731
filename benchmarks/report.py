"""Everything that is measured, in one run: a JSON file, and a table and a plot in the documentation."""

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from . import footprint, load
from .run import Figures, measure
from .servers import (
    HERE,
    MLSERVER,
    Target,
    forget_peak,
    install_litserve,
    memory,
    start_bare,
    start_functions,
    start_litserve,
    start_mlserver,
    start_ours,
    stop,
)
from .works import CALLERS, LARGE, WORKS

RESULT = HERE / "results.json"
PAGE = HERE.parent / "docs" / "performance.md"
PLOT = HERE.parent / "docs" / "performance.svg"
BEGIN, END = "<!-- written by make bench-report -->", "<!-- end of what make bench-report writes -->"
STREAMS = 500


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=2.0, help="length of one measurement")
    options.add_argument("--rounds", type=int, default=3, help="measurements of each cell, interleaved")
    options.add_argument("--without-mlserver", action="store_true", help="leave other servers out")
    given = options.parse_args()
    if not given.without_mlserver:
        install_mlserver()
        install_litserve()
    found = run(given.rounds, given.seconds, not given.without_mlserver)
    found["command"] = " ".join(["python -m benchmarks.report", *sys.argv[1:]])
    RESULT.write_text(json.dumps(found, indent=1) + "\n")
    write(found)


def install_mlserver() -> None:
    """In an environment of its own, because it needs older versions than the server."""
    if (MLSERVER / "bin" / "mlserver").exists():
        return
    subprocess.run([sys.executable, "-m", "venv", str(MLSERVER)], check=True)
    subprocess.run([str(MLSERVER / "bin" / "pip"), "install", "-q", "mlserver==1.7.1"], check=True)


def run(rounds: int, seconds: float, mlserver: bool) -> dict[str, Any]:
    cpus = sorted(os.sched_getaffinity(0))
    servers, callers = {cpus[0]}, {cpus[-1]}
    found: dict[str, Any] = {
        "cores": len(cpus),
        "python": platform.python_version(),
        "rounds": rounds,
        "seconds": seconds,
        "import": footprint.import_seconds(),
        "start": {models: footprint.start_figures(servers, models) for models in (1, 100)},
        "bare_start": footprint.bare_start_figures(servers),
    }
    with (
        tempfile.TemporaryDirectory() as folder,
        asyncio.Runner(loop_factory=load.wakeful_loop) as runner,
    ):
        os.sched_setaffinity(0, callers)
        start: dict[str, Start] = {
            "bare": lambda: start_bare(servers, "rest"),
            "inferstream": lambda: [start_ours(servers, "inferstream")],
        }
        if mlserver:
            start["LitServe"] = lambda: [start_litserve(servers)]
            start["MLServer"] = lambda: [start_mlserver(servers, Path(tempfile.mkdtemp(dir=folder)))]
        # Memory is that of a fresh server: what large tensors leave behind would hide what streams take.
        with_streams = {name: each for name, each in start.items() if name != "LitServe"}
        with_streams["function"] = lambda: [start_functions(servers)]
        found["streams"] = {name: streams(runner, each, seconds) for name, each in with_streams.items()}
        with serving(start["inferstream"]) as (ours,):
            found["idle_stream"] = footprint.idle_stream_bytes(runner, ours)
        with serving(start["inferstream"]) as (ours,):
            found["by_connections"] = footprint.cost_by_connections(runner, ours, seconds)
        with serving(start["inferstream"]) as (ours,):
            found["raw_memory"] = raw_memory(runner, ours)
        with serving(lambda: start_bare(servers, "grpc-sync")) as (bare,):
            found["bare_raw_memory"] = raw_memory(runner, bare)
        found["by_models"] = footprint.cost_by_models(runner, servers, seconds)
        start["bare"] = lambda: start_bare(servers, "rest", "grpc", "grpc-sync", "fastapi")
        start["functions"] = lambda: [start_functions(servers)]
        with serving(*start.values()) as targets:
            found["works"] = measure(runner, targets, list(WORKS), rounds, seconds)
    return found


Start = Callable[[], list[Target]]


@contextmanager
def serving(*starts: Start) -> Iterator[list[Target]]:
    """The servers that these start, until the block is left."""
    targets: list[Target] = []
    try:
        for start in starts:
            targets += start()
        yield targets
    finally:
        stop(targets)


def streams(runner: asyncio.Runner, start: Start, seconds: float) -> dict[str, float]:
    """The first events and the paced streams of a fresh server."""
    with serving(start) as (target,):
        port = target.ports.get("functions") or target.ports["rest"]
        paced = footprint.paced_streams(runner, port, target.process.pid, STREAMS, max(seconds, 4.0))
        first = footprint.first_event_ms(runner, port)
        return {"first_event_ms": first, **paced}


def raw_memory(runner: asyncio.Runner, target: Target) -> float:
    """The most memory that a raw 16 MB tensor over gRPC takes in a fresh server, as a multiple of it."""
    port = target.ports.get("grpc") or target.ports["grpc-sync"]
    before = memory(target.process.pid)
    forget_peak(target.process.pid)
    runner.run(load.grpc_raw(port, LARGE, 1, 1.0))
    return (memory(target.process.pid, "VmHWM") - before) / LARGE.nbytes


def write(found: dict[str, Any]) -> None:
    """Put the tables and the plot where the documentation has them."""
    page = PAGE.read_text()
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    PAGE.write_text(f"{head}{BEGIN}\n\n{tables(found)}\n{END}{tail}")
    plot(found["works"])


def tables(found: dict[str, Any]) -> str:
    lines = [
        f"`{found['command']}` on {found['cores']} cores, Python {found['python']}: servers on one, load on "
        f"another, {CALLERS} callers for small work, medians of {found['rounds']} interleaved rounds of "
        f"{found['seconds']:g} s. CPU is the server's, user and system.",
        "",
        "| work | bare µs | FastAPI µs | inferstream µs | ratio | goal | MLServer µs | MLServer to inferstream |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for work in WORKS:
        cells = found["works"][work.name]
        ours = cells["inferstream"]["cpu_us"]
        if "bare" not in cells:
            lines.append(f"| {work.name}, per {work.unit} |  |  | {ours:,.1f} |  |  |  |  |")
            continue
        bare = cells["bare"]["cpu_us"]
        theirs = cells.get("MLServer")
        there = ("", "") if theirs is None else (f"{theirs['cpu_us']:,.1f}", f"{theirs['cpu_us'] / ours:.1f}")
        framework = f"{cells['FastAPI']['cpu_us']:,.1f}" if "FastAPI" in cells else ""
        lines.append(
            f"| {work.name}, per {work.unit} | {bare:,.1f} | {framework} | {ours:,.1f} | {ours / bare:.2f} "
            f"| ≤ {work.goal:g} | {there[0]} | {there[1]} |"
        )
    return "\n".join(
        [*lines, "", *_chat(found["works"]), "", *_streams(found["streams"]), "", *_footprint(found), ""]
    )


def _chat(works: Figures) -> list[str]:
    """A token of chat completions beside one of `generate_stream` and one of LitServe."""
    chat = next(work.name for work in WORKS if work.litserve)
    ours, stream = works[chat]["inferstream"]["cpu_us"], works["SSE, 256 tokens"]["inferstream"]["cpu_us"]
    rows = [
        ("inferstream, `/v1/chat/completions`", ours),
        ("inferstream, `generate_stream`", stream),
        *(
            [("LitServe 0.2.19, OpenAI spec", works[chat]["LitServe"]["cpu_us"])]
            if "LitServe" in works[chat]
            else []
        ),
    ]
    lines = ["| a streamed token | server CPU µs | to chat completions |", "|---|---|---|"]
    return lines + [f"| {name} | {cost:,.1f} | {cost / ours:.2f} |" for name, cost in rows]


def _streams(found: dict[str, dict[str, float]]) -> list[str]:
    names = list(found)
    rows = (
        ("time to first event, lone caller", "≤ 2 x bare", lambda one: f"{one['first_event_ms']:.2f} ms"),
        (f"{STREAMS} streams at 10 ms: of the ideal tokens", "≥ 92 %", lambda one: f"{one['share']:.1%}"),
        (f"{STREAMS} streams at 10 ms: gap p99", "≤ 14 ms", lambda one: f"{one['gap_p99_ms']:.1f} ms"),
        (f"{STREAMS} streams at 10 ms: memory", "≤ 100 MB", lambda one: f"{one['rss'] / 1e6:.0f} MB"),
    )
    lines = [f"| SSE | goal | {' | '.join(names)} |", "|---" * (len(names) + 2) + "|"]
    lines += [f"| {row} | {goal} | {' | '.join(show(found[n]) for n in names)} |" for row, goal, show in rows]
    return lines


def _footprint(found: dict[str, Any]) -> list[str]:
    one, hundred, bare = found["start"][1], found["start"][100], found["bare_start"]
    connections, models = found["by_connections"], found["by_models"]
    rows = (
        ("`import inferstream`", "≤ 0.15 s", f"{found['import']:.2f} s"),
        ("start to first 200, one model", "≤ 0.45 s", f"{one['seconds']:.2f} s, CPU {one['cpu']:.2f} s"),
        (
            "start to first 200, 100 models",
            "≤ 1.0 s",
            f"{hundred['seconds']:.2f} s, CPU {hundred['cpu']:.2f} s",
        ),
        (
            "for scale: uvicorn, FastAPI, grpc.aio and NumPy alone",
            "",
            f"{bare['seconds']:.2f} s, CPU {bare['cpu']:.2f} s, {bare['rss'] / 1e6:.0f} MB",
        ),
        ("memory, one model, idle", "≤ 75 MB", f"{one['rss'] / 1e6:.0f} MB"),
        (
            "memory of a raw 16 MB tensor over gRPC, there and back",
            "≤ 3 x it",
            f"{found['raw_memory']:.1f} x, bare gRPC {found['bare_raw_memory']:.1f} x",
        ),
        ("memory of an idle stream", "≤ 32 KiB", f"{found['idle_stream'] / 1024:.1f} KiB"),
        (
            "small request with 1, 32, 1,000 connections",
            "flat",
            ", ".join(f"{cost:.0f}" for cost in connections.values()) + " µs",
        ),
        (
            "small request beside 1, 1,000 models",
            "flat",
            ", ".join(f"{cost:.0f}" for cost in models.values()) + " µs",
        ),
    )
    return ["| beside the requests | goal | inferstream |", "|---|---|---|"] + [
        f"| {name} | {goal} | {value} |" for name, goal, value in rows
    ]


def plot(works: Figures) -> None:
    """Server CPU as multiples of the bare server's, on a logarithmic scale."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "inferstream"
    from matplotlib import pyplot

    names = [work.name for work in WORKS if "bare" in works[work.name]][::-1]
    figure, axes = pyplot.subplots(figsize=(9, 5.5))
    for offset, server, colour in ((0.2, "inferstream", "#1f77b4"), (-0.2, "MLServer", "#bbbbbb")):
        ratios = [
            works[name][server]["cpu_us"] / works[name]["bare"]["cpu_us"] if server in works[name] else 0
            for name in names
        ]
        places = [index + offset for index in range(len(names))]
        bars = axes.barh(places, ratios, height=0.38, color=colour, label=server)
        axes.bar_label(bars, [f"{ratio:.1f}" if ratio else "" for ratio in ratios], padding=2, fontsize=8)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("server CPU, as a multiple of a bare server that does the same")
    axes.legend(loc="lower right")
    figure.tight_layout()
    figure.savefig(PLOT, metadata={"Date": None})


if __name__ == "__main__":
    main()

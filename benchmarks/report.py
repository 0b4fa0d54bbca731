"""Everything that is measured, in one run: a JSON file, and tables and a plot in the documentation.

With `--against COMMIT`: the cost of this tree and of a commit side by side, and nothing is written.
"""

import argparse
import asyncio
import json
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from . import against, footprint, load, ports, scrapes
from .rows import UnknownRow, choose_rows
from .run import STREAMS, Figures, measure
from .servers import (
    HERE,
    Target,
    forget_peak,
    install_litserve,
    install_mlserver,
    memory,
    start_bare,
    start_functions,
    start_litserve,
    start_mlserver,
    start_ours,
    stop,
)
from .tables import summary, tables
from .works import FUNCTION, LARGE, MESSAGES, RESPONSES, TEXTS, WORKS, Paced

RESULT = HERE / "results.json"
DOCS = HERE.parent / "docs"
SUMMARY = DOCS / "performance.md"
PAGE = DOCS / "contributing" / "measurements.md"
PLOT = DOCS / "performance.svg"
BEGIN, END = "<!-- written by make bench-report -->", "<!-- end of what make bench-report writes -->"


def main(arguments: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, help="length of one measurement (2; 1 against a commit)")
    options.add_argument(
        "--rounds", type=int, help="measurements of each cell, interleaved (3; 5 against a commit)"
    )
    options.add_argument("--without-mlserver", action="store_true", help="leave other servers out")
    options.add_argument(
        "--against", metavar="COMMIT", help="compare this tree with a commit, and write no page"
    )
    options.add_argument(
        "--rows", metavar="NAMES", help="names of rows, or how they begin, comma-separated (all)"
    )
    options.add_argument("--json", action="store_true", help="print the comparison as JSON")
    given = options.parse_args(arguments)
    if given.against is not None:
        try:
            rows = choose_rows(given.rows)
            return against.run(rows, given.against, given.rounds or 5, given.seconds or 1.0, given.json)
        except (UnknownRow, against.UnknownCommit) as error:
            print(f"bench-report: {error}", file=sys.stderr)
            return 2
    if given.rows is not None or given.json:
        options.error("--rows and --json need --against COMMIT")
    if not given.without_mlserver:
        install_mlserver()
        install_litserve()
    found = run(given.rounds or 3, given.seconds or 2.0, not given.without_mlserver)
    found["command"] = " ".join(["python -m benchmarks.report", *sys.argv[1:]])
    RESULT.write_text(json.dumps(found, indent=1) + "\n")
    write(found)
    return 0


def run(rounds: int, seconds: float, mlserver: bool) -> dict[str, Any]:
    cpus = sorted(os.sched_getaffinity(0))
    servers, callers = {cpus[0]}, {cpus[-1]}
    found: dict[str, Any] = {
        "date": datetime.now(UTC).date().isoformat(),
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
        with_streams = {name: (each, RESPONSES) for name, each in start.items() if name != "LitServe"}
        with_streams["`str`"] = (start["inferstream"], TEXTS)
        with_streams["function"] = (lambda: [start_functions(servers)], FUNCTION)
        found["streams"] = streams(runner, with_streams, rounds, seconds)
        with_grpc = {name: each for name, each in start.items() if name in ("inferstream", "MLServer")}
        bare: dict[str, Start] = {"bare": lambda: start_bare(servers, "grpc")}
        with_messages = {name: (each, MESSAGES) for name, each in (bare | with_grpc).items()}
        found["messages"] = streams(runner, with_messages, rounds, seconds)
        bare = {"bare": lambda: start_bare(servers, "grpc-sync")}
        found["raw_memory"] = {name: raw_memory(runner, each) for name, each in (bare | with_grpc).items()}
        with serving(start["inferstream"]) as (ours,):
            found["idle_stream"] = footprint.idle_stream_bytes(runner, ours)
        with serving(start["inferstream"]) as (ours,):
            found["by_connections"] = footprint.cost_by_connections(runner, ours, seconds)
        found["by_models"] = footprint.cost_by_models(runner, servers, seconds)
        found["ports"] = ports.costs_by_ports(runner, servers, max(rounds, 6), seconds)
        found["scrapes"] = scrapes.costs_of_scrapes(runner, servers, rounds, seconds)
        start["bare"] = lambda: start_bare(servers, "rest", "grpc", "grpc-sync", "grpc-sync-600", "fastapi")
        start["functions"] = lambda: [start_functions(servers)]
        start |= with_grpc
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


def streams(
    runner: asyncio.Runner, starts: dict[str, tuple[Start, Paced]], rounds: int, seconds: float
) -> dict[str, dict[str, float]]:
    """The paced streams of fresh servers, and their first events: medians of interleaved rounds."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in starts}
    for _ in range(rounds):
        for name, (start, paced) in starts.items():
            found[name].append(streams_once(runner, start, paced, seconds))
    return {
        name: {figure: statistics.median(once[figure] for once in each) for figure in each[0]}
        for name, each in found.items()
    }


def streams_once(runner: asyncio.Runner, start: Start, paced: Paced, seconds: float) -> dict[str, float]:
    with serving(start) as (target,):
        found = footprint.paced_streams(runner, target, paced, STREAMS, max(seconds, 4.0))
        if paced.first:
            port = target.ports.get("functions") or target.ports["rest"]
            found["first_event_ms"] = footprint.first_event_ms(runner, port)
        return found


def raw_memory(runner: asyncio.Runner, start: Start) -> float:
    """The most memory that a raw 16 MB tensor over gRPC takes in a fresh server, as a multiple of it."""
    with serving(start) as (target,):
        port = target.ports.get("grpc") or target.ports["grpc-sync"]
        before = memory(target.process.pid)
        forget_peak(target.process.pid)
        runner.run(load.grpc_raw(port, LARGE, 1, 1.0))
        return (memory(target.process.pid, "VmHWM") - before) / LARGE.nbytes


def write(found: dict[str, Any]) -> None:
    """Put the tables and the plot where the documentation has them."""
    _replace(SUMMARY, summary(found))
    _replace(PAGE, tables(found))
    plot(found["works"])


def _replace(page: Path, text: str) -> None:
    """Replace the generated part of a page."""
    head, _, rest = page.read_text().partition(BEGIN)
    _, _, tail = rest.partition(END)
    page.write_text(f"{head}{BEGIN}\n\n{text}\n{END}{tail}")


def plot(works: Figures) -> None:
    """Server CPU as multiples of the bare server's, on a logarithmic scale."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "inferstream"
    from matplotlib import pyplot

    names = [work.name for work in WORKS if "bare" in works[work.name]][::-1]
    figure, axes = pyplot.subplots(figsize=(9, 7.5))
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
    sys.exit(main())

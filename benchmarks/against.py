"""This tree and another commit side by side: the same load on servers of both, in turns, and a verdict for each row.

The other commit has two servers. The ratio of these two is what a commit differs from itself on this machine.
"""

import asyncio
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from . import load
from .rows import FreshRow, Row, fresh_figures, start_server
from .servers import HERE, Target, stop, tree_cpu
from .verdicts import Result, compare, has_passed, print_table

SCHEMA = "inferstream.bench-report/1"
ROOT = HERE.parent
PARTS = 4
"""Turns of a server within a round. Noise that lasts longer than a turn meets all servers."""
SETTLE_SECONDS = 0.02
"""After a load, until the server has closed its connections."""


class UnknownCommit(ValueError):
    """A name that git does not resolve to a commit."""


def run(rows: Sequence[Row | FreshRow], name: str, rounds: int, seconds: float, as_json: bool) -> int:
    """Compare, print, and return the exit code: 0 if every row passes, else 1."""
    commit = resolve_commit(name)
    try:
        with tempfile.TemporaryDirectory(prefix="bench-report-") as folder:
            results = measure(rows, copy_trees(Path(folder), commit), rounds, seconds, Path(folder))
    except RuntimeError as error:
        print(f"bench-report: {error}", file=sys.stderr)
        return 1
    has_all_passed = has_passed(results)
    if as_json:
        document = {
            "schema": SCHEMA,
            "against": commit,
            "rounds": rounds,
            "seconds": seconds,
            "passed": has_all_passed,
            "rows": [result.document() for result in results],
        }
        print(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode())
    else:
        print_table(results, f"this tree against {commit[:8]}, medians of {rounds} rounds of {seconds:g} s")
    return 0 if has_all_passed else 1


def resolve_commit(name: str) -> str:
    """The hash of a commit. Raises UnknownCommit."""
    command = ["git", "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"]
    found = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if found.returncode:
        raise UnknownCommit(f"--against {name}: git does not know this commit\nhint: git log --oneline")
    return found.stdout.strip()


def copy_trees(folder: Path, commit: str) -> dict[str, Path]:
    """The sources of the servers, by their names: copies of this tree, with all changes, and of the commit."""
    here, there = folder / "this-tree", folder / "the-other"
    shutil.copytree(ROOT / "inferstream", here / "inferstream", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", here)
    archive = ["git", "archive", "--format=tar", commit, "inferstream", "pyproject.toml"]
    content = subprocess.run(archive, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(content)) as opened:
        opened.extractall(there, filter="data")
    for tree in (here, there):
        write_metadata(tree)
        check_import(tree)
    return {"this": here, "against": there, "again": there}


def write_metadata(tree: Path) -> None:
    """What an installation writes: the entry points by which plug-ins of this tree are found."""
    project = tomllib.loads((tree / "pyproject.toml").read_text())["project"]
    folder = tree / f"inferstream-{project['version']}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: inferstream\nVersion: {project['version']}\n"
    )
    groups = project.get("entry-points", {}).items()
    lines = [
        line
        for group, points in groups
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in points.items()))
    ]
    (folder / "entry_points.txt").write_text("\n".join(lines) + "\n")


def check_import(tree: Path) -> None:
    """Raise RuntimeError unless the package is imported from this tree."""
    command = [sys.executable, "-c", "import inferstream; print(inferstream.__file__)"]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    found = subprocess.run(
        command, cwd=tree, env=environment, stdout=subprocess.PIPE, text=True
    ).stdout.strip()
    if not Path(found).is_relative_to(tree):
        raise RuntimeError(f"inferstream is imported from {found or 'nowhere'}, not from {tree}")


def measure(
    rows: Sequence[Row | FreshRow], trees: dict[str, Path], rounds: int, seconds: float, folder: Path
) -> list[Result]:
    """The results of all rows, which take turns in each round. The first round warms up."""
    cpus = sorted(os.sched_getaffinity(0))
    costs: dict[str, dict[str, list[float]]] = {row.name: {name: [] for name in trees} for row in rows}
    kinds = list(dict.fromkeys(row.server for row in rows if isinstance(row, Row)))
    with (
        serving(kinds, trees, {cpus[0]}, folder) as servers,
        asyncio.Runner(loop_factory=load.wakeful_loop) as runner,
    ):
        os.sched_setaffinity(0, {cpus[-1]})
        for number in range(rounds + 1):
            for row, found in measure_round(runner, rows, trees, servers, {cpus[0]}, number, seconds):
                for name, cost in found.items():
                    if number:
                        costs[row.name][name].append(cost)
        os.sched_setaffinity(0, set(cpus))
    say("")
    return [compare(row.name, row.unit, costs[row.name]) for row in rows]


def say(progress: str) -> None:
    """Replace the line of progress on a terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K{progress}", end="", file=sys.stderr, flush=True)


@contextmanager
def serving(
    kinds: Sequence[str], trees: dict[str, Path], cpus: set[int], folder: Path
) -> Iterator[dict[tuple[str, str], Target]]:
    """A server for each kind and tree."""
    servers: dict[tuple[str, str], Target] = {}
    try:
        for kind in kinds:
            for name, tree in trees.items():
                servers[kind, name] = start_server(kind, tree, cpus, folder)
        yield servers
    finally:
        stop(list(servers.values()))


def measure_round(
    runner: asyncio.Runner,
    rows: Sequence[Row | FreshRow],
    trees: dict[str, Path],
    servers: dict[tuple[str, str], Target],
    cpus: set[int],
    number: int,
    seconds: float,
) -> Iterator[tuple[Row | FreshRow, dict[str, float]]]:
    """Each row with its costs by tree."""
    fresh: dict[str, dict[str, float]] = {}
    for row in rows:
        say(f"round {number}: {row.name}")
        if isinstance(row, FreshRow):
            if not fresh:
                fresh = {name: fresh_figures(trees[name], cpus) for name in turned(list(trees), number)}
            yield row, {name: found[row.figure] * row.scale for name, found in fresh.items()}
        else:
            targets = {name: servers[row.server, name] for name in trees}
            yield row, measure_load(runner, row, targets, number, seconds if number else seconds / 2)


def measure_load(
    runner: asyncio.Runner, row: Row, targets: dict[str, Target], number: int, seconds: float
) -> dict[str, float]:
    """CPU microseconds of a unit, by server, in a round in which the servers take several turns."""
    cpu, units = dict.fromkeys(targets, 0.0), dict.fromkeys(targets, 0)
    for part in range(PARTS):
        for name in turned(list(targets), number + part):
            target = targets[name]
            before = tree_cpu(target.process.pid)
            try:
                units[name] += runner.run(row.run(target.ports[row.port], seconds / PARTS))
            except Exception as error:
                raise RuntimeError(f"{row.name}, {name}: {type(error).__name__}: {error}") from error
            time.sleep(SETTLE_SECONDS)
            cpu[name] += tree_cpu(target.process.pid) - before
    return {name: cpu[name] / units[name] * 1e6 for name in targets}


def turned(names: list[Any], by: int) -> list[Any]:
    """The names from another one on: none is always first."""
    by %= len(names)
    return names[by:] + names[:by]

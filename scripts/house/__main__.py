"""Prints the boundary between the core and the plug-ins: its figures, those of a commit before, and their bounds."""

import argparse
import io
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from .boundary import Boundary, Crossing

ROOT = Path(".")
CEILINGS: dict[str, int] = tomllib.loads(Path(__file__).with_name("ceilings.toml").read_text())["ceilings"]

COUNTED: dict[str, Callable[[Boundary], list[Crossing]]] = {
    "private imports": lambda boundary: boundary.private,
    "dynamic imports": lambda boundary: boundary.computed,
    "imports of plug-ins": lambda boundary: boundary.leaks,
    "dotted strings": lambda boundary: boundary.strings,
    "mentions": lambda boundary: boundary.mentions,
    "entry points": lambda boundary: boundary.entry_points,
}

READ_FIRST = (
    *("dataplane/admission.py", "dataplane/call.py", "dataplane/caller.py", "dataplane/pipeline.py"),
    *("dataplane/reply.py", "dataplane/stages/", "dataplane/execution/local.py", "server/rest/inference.py"),
)
"""The part of the core that a reader begins with."""


def counts(boundary: Boundary) -> dict[str, int]:
    """The figures that have a ceiling."""
    figures = {name: len(crossings(boundary)) for name, crossings in COUNTED.items()}
    figures |= {"circles": len(boundary.circles), "settings of the core": boundary.settings}
    return {name: figures[name] for name in CEILINGS}


def differences(boundary: Boundary) -> Iterator[str]:
    """A line for each figure that is not at its ceiling."""
    for name, count in counts(boundary).items():
        if count > CEILINGS[name]:
            yield f"{name}: {count}, at most {CEILINGS[name]}; `make house NAMES=1` prints each"
        elif count < CEILINGS[name]:
            yield f"{name}: {count}; lower its ceiling of {CEILINGS[name]} in scripts/house/ceilings.toml"


def rows(boundary: Boundary) -> Iterator[tuple[str, str, str]]:
    """What is measured, its figure, and the bound of the redesign."""
    for of, modules, bound in (("core", boundary.core, "≤ 33,500"), ("plug-ins", boundary.plugins, "")):
        lines, code = boundary.lines(modules)
        yield f"{of}: lines", f"{lines:,}", "≤ 46,000" if bound else ""
        yield f"{of}: code lines", f"{code:,}", bound
    for name, crossings in COUNTED.items():
        yield name, str(len(crossings(boundary))), "≤ 20" if name == "mentions" else "0"
    yield "circles", f"{len(boundary.circles)} {' '.join(boundary.circles)}".rstrip(), "0"
    one = sum(len(plugins) == 1 for plugins in boundary.users.values())
    exported = f"{len(boundary.exported)} / {len(boundary.users)} / {one}"
    yield "names of the extension API / used / by one plug-in", exported, "≤ 180 / - / 45"
    longest = boundary.long_functions[0][0] if boundary.long_functions else 0
    yield (
        "functions of more than 60 lines / the longest",
        f"{len(boundary.long_functions)} / {longest}",
        "0 / 60",
    )
    yield "settings of the core", str(boundary.settings), "≤ 90"
    first = [module.source for module in boundary.core if module.file.startswith(READ_FIRST)]
    size = f"{sum(source.lines for source in first):,} in {len(first)}"
    yield "the part to read first: lines in files", size, "≤ 3,500 in 20"


def _passed_through() -> str:
    command = [sys.executable, "-m", "scripts.house.request"]
    return str(len(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()))


def _details(boundary: Boundary) -> Iterator[str]:
    """What is behind the counts: each name and its places."""
    for row, crossings in COUNTED.items():
        places: dict[str, list[str]] = {}
        for crossing in crossings(boundary):
            places.setdefault(f"{crossing.of} {crossing.name}".strip(), []).append(crossing.place)
        yield from (f"{row}: {name}: {', '.join(where)}" for name, where in sorted(places.items()))
    yield from (
        f"{plugin} needs {', '.join(sorted(needs))}" for plugin, needs in sorted(boundary.needs.items())
    )
    yield from (f"function of {length} lines: {name}" for length, name in boundary.long_functions)
    private = Counter(crossing.of for crossing in boundary.private)
    yield "private imports: " + ", ".join(f"{plugin} {count}" for plugin, count in private.most_common())


def _figures_of(commit: str) -> dict[str, str]:
    """The figures of a commit, by row."""
    command = ["git", "archive", commit, "inferstream", "pyproject.toml"]
    archive = subprocess.run(command, check=True, capture_output=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(archive)) as tree:
            tree.extractall(folder, filter="data")
        return {name: figure for name, figure, _ in rows(Boundary(Path(folder)))}


def main() -> int:
    parser = argparse.ArgumentParser(prog="make house", description=__doc__)
    parser.add_argument("--names", action="store_true", help="print the names behind the counts")
    parser.add_argument("--against", metavar="COMMIT", help="print the figures of this commit too")
    flags = parser.parse_args()
    try:
        before = _figures_of(flags.against) if flags.against else {}
    except subprocess.CalledProcessError as failed:
        parser.error(f"--against {flags.against}: {failed.stderr.decode().strip()}")
    boundary = Boundary(ROOT)
    table = [("", flags.against or "", "now", "bound")]
    table += [(name, before.get(name, ""), figure, bound) for name, figure, bound in rows(boundary)]
    table.append(("files that one REST inference passes through", "", _passed_through(), "≤ 22"))
    widths = [max(len(row[column]) for row in table) for column in range(4)]
    for row in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    if flags.names:
        print("", *_details(boundary), sep="\n")
    wrong = [*differences(boundary)]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

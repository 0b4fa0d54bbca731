"""Prints how far the package is from the goals of its rebuilding, measured as before it began."""

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from . import patterns
from .circles import circles
from .mirrors import mirror, modules
from .source import Source, sources

PACKAGE = Path("inferstream")
LONGEST = 350
Row = tuple[str, str, str, str]


def rows(files: list[Source]) -> Iterator[Row]:
    """What is measured, its value at the state 248b463, its value now, and its goal."""
    yield "lines", "57,736", f"{sum(file.lines for file in files):,}", "≤ 46,000"
    yield "code lines", "42,360", f"{sum(file.code_lines for file in files):,}", "≤ 34,000"
    longer = [file.name for file in files if file.lines > LONGEST]
    yield f"files over {LONGEST} lines", "0", f"{len(longer)}", "0"
    yield "files that one REST inference passes through", "33", _request(), "≤ 22"
    asked = (patterns.kinds_asked, patterns.classes_switched, patterns.dicts_written)
    counts = [count(files) for count in asked]
    said = f"{' + '.join(map(str, counts))} = {sum(counts)}"
    yield "asking a payload's kind + `__class__ =` + `__dict__[…] =`", "19 + 3 + 11 = 33", said, "≤ 3"
    yield "files with bounded queues by hand", "10", f"{len(patterns.queues(files))}", "1"
    yield "files with writers by hand", "11", f"{len(patterns.writers(files))}", "1"
    yield "ways in which user code is run", "7", "by hand", "3"
    yield "files that name CancelledError", "28", f"{len(patterns.cancellations(files))}", "≤ 8"
    yield "class names with two meanings", "25", f"{len(patterns.doubles(files))}", "0"
    yield "places that bind the name `found`", "249", f"{patterns.bound(files, 'found')}", "0"
    yield "circles of imports, for types alone", "5", f"{len(circles(files))}", "0"
    touched = "files to touch for a dialect / keys / a metric from workers / a cancellation bug"
    yield touched, "7 / 22 / 8-13 / 12-28", "by drills", "2 / 4 / 2 / 5"
    needed = modules(files)
    tested = sum(mirror(name).is_file() for name in needed)
    share = f"{tested} of {len(needed)} ({tested / len(needed):.0%})"
    yield "modules with a test at the mirrored place", "145 of 470 (31%)", share, "≥ 90%"


def _request() -> str:
    command = [sys.executable, "-m", "scripts.house.request"]
    return str(len(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()))


def _unit() -> str:
    started = time.monotonic()
    failed = subprocess.run(["make", "unit"], stdout=subprocess.DEVNULL).returncode
    return f"{time.monotonic() - started:.0f} s{', with failures' if failed else ''}"


def details(files: list[Source]) -> Iterator[str]:
    """The names behind the counts."""
    yield f"queues: {', '.join(patterns.queues(files))}"
    yield f"writers: {', '.join(patterns.writers(files))}"
    yield f"CancelledError: {', '.join(patterns.cancellations(files))}"
    yield from (f"{name}: {', '.join(where)}" for name, where in sorted(patterns.doubles(files).items()))
    yield from (f"circle: {', '.join(circle)}" for circle in circles(files))
    yield from (f"no {mirror(name)}" for name in modules(files) if not mirror(name).is_file())


def main() -> None:
    parser = argparse.ArgumentParser(prog="make house", description=__doc__)
    parser.add_argument("--names", action="store_true", help="print the names behind the counts too")
    parser.add_argument("--no-time", action="store_true", help="do not run `make unit` to take its time")
    flags = parser.parse_args()
    files = sources(PACKAGE)
    table = [
        *rows(files),
        ("time of `make unit`", "no such target (93 s)", "-" if flags.no_time else _unit(), "≤ 60 s"),
    ]
    heads = ("", "today at 248b463", "now", "goal")
    widths = [max(len(row[column]) for row in [heads, *table]) for column in range(4)]
    for row in [heads, *table]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    if flags.names:
        print("", *details(files), sep="\n")


if __name__ == "__main__":
    main()

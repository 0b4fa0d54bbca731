"""Prints at the end of a run what was skipped and why; as a program, what none of several runs has run."""

import json
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

REPORTS = "TEST_REPORTS"
"""The variable that names a folder in which each run leaves a report."""


def pytest_terminal_summary(terminalreporter: "pytest.TerminalReporter") -> None:
    stats = terminalreporter.stats
    skipped = [(report.nodeid, report.longrepr[2]) for report in stats.get("skipped", [])]
    if skipped:
        terminalreporter.section("skipped")
        for line in grouped(skipped):
            terminalreporter.write_line(line)
    if folder := os.environ.get(REPORTS):
        ran = [report.nodeid for kind in ("passed", "failed", "error") for report in stats.get(kind, [])]
        number, _ = tempfile.mkstemp(".json", dir=folder)
        with open(number, "w") as file:
            json.dump({"ran": ran, "skipped": skipped}, file)


def grouped(skipped: Iterable[tuple[str, str]]) -> Iterator[str]:
    """A line for each reason: how many, why, and the files."""
    by_reason = defaultdict(list)
    for test, reason in skipped:
        by_reason[reason.removeprefix("Skipped: ")].append(test.partition("::")[0])
    for reason, files in sorted(by_reason.items(), key=lambda item: -len(item[1])):
        yield f"{len(files):5}  {reason} ({', '.join(sorted({*files}))})"


def left(folder: Path) -> dict[str, str]:
    """The tests that some runs have skipped and none has run, with their reasons."""
    reports = [json.loads(file.read_text()) for file in folder.glob("*.json")]
    # A module that was skipped as a whole is one entry, and the tests of another run begin with its name.
    ran = {name for report in reports for test in report["ran"] for name in (test, test.partition("::")[0])}
    return {test: reason for report in reports for test, reason in report["skipped"] if test not in ran}


if __name__ == "__main__":
    lines = list(grouped(left(Path(sys.argv[1])).items()))
    print("Skipped in every run:" if lines else "No test was skipped in every run.", *lines, sep="\n")

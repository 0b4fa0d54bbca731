"""Results of a check: as a table, as JSON, and as JUnit."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from rich.console import Console
from rich.markup import escape
from rich.table import Table

SCHEMA = "inferstream.check/1"
COLOURS = {"passed": "green", "failed": "red", "skipped": "yellow"}


class Result(NamedTuple):
    """What a contract of a model came to: `passed`, `failed` or `skipped`, and why."""

    model: str
    contract: str
    status: str
    detail: str = ""

    @property
    def name(self) -> str:
        return f"{self.model}: {self.contract}"


def document(results: Sequence[Result]) -> dict[str, Any]:
    """The results as what `--json` prints."""
    counts = Counter(result.status for result in results)
    return {
        "schema": SCHEMA,
        "passed": counts["passed"],
        "failed": counts["failed"],
        "skipped": [
            {"name": result.name, "reason": result.detail} for result in results if result.status == "skipped"
        ],
        "cases": [{"name": each.name, "status": each.status, "detail": each.detail} for each in results],
    }


def as_json(results: Sequence[Result]) -> str:
    """The document as text."""
    return json.dumps(document(results), indent=1)


def write_junit(results: Sequence[Result], path: Path) -> None:
    """Write the results as JUnit's XML. Raises OSError."""
    counts = Counter(result.status for result in results)
    numbers = {"tests": len(results), "failures": counts["failed"], "skipped": counts["skipped"]}
    attributes = {name: str(number) for name, number in numbers.items()}
    suite = ElementTree.Element("testsuite", {"name": "server check", **attributes})
    for result in results:
        case = ElementTree.SubElement(suite, "testcase", {"classname": result.model, "name": result.contract})
        if result.status != "passed":
            kind = "failure" if result.status == "failed" else "skipped"
            text = "".join(letter if letter.isprintable() else "\ufffd" for letter in result.detail)
            ElementTree.SubElement(case, kind, {"message": text})
    ElementTree.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)


def show(results: Sequence[Result], console: Console) -> None:
    """Print a table for people, and how many passed."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("model", "contract", "result", "detail"):
        table.add_column(name, overflow="fold")
    for result in results:
        status = f"[{COLOURS[result.status]}]{result.status}[/]"
        table.add_row(escape(result.model), result.contract, status, escape(result.detail))
    console.print(table)
    counts = Counter(result.status for result in results)
    console.print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")

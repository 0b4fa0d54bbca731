"""Results of a check as a table, as JSON and as JUnit XML."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from rich.console import Console
from rich.markup import escape
from rich.table import Table

COLOURS = {"passed": "green", "failed": "red", "skipped": "yellow"}


class Result(NamedTuple):
    """The status of a contract or of a recorded request: `passed`, `failed` or `skipped`, with the reason."""

    model: str
    contract: str
    status: str
    detail: str = ""

    @property
    def name(self) -> str:
        return f"{self.model}: {self.contract}"


class Report(NamedTuple):
    """The report of a command.

    It is printed as a table or as JSON, and also written as JUnit XML if a file is set.
    """

    command: str
    case: str
    """Header of the column that names what is checked."""
    as_json: bool
    junit: Path | None

    def write(self, results: Sequence[Result]) -> int:
        """Write the report. Returns 0 if some results passed and none failed, otherwise 1. Raises OSError."""
        if self.junit is not None:
            self._write_junit(results, self.junit)
        if self.as_json:
            print(json.dumps(self._document(results), indent=1))  # noqa: T201
        else:
            self._show(results, Console(highlight=False))
        passed = any(result.status == "passed" for result in results)
        return 0 if passed and not any(result.status == "failed" for result in results) else 1

    def _document(self, results: Sequence[Result]) -> dict[str, Any]:
        counts = Counter(result.status for result in results)
        return {
            "schema": f"inferstream.{self.command}/1",
            "passed": counts["passed"],
            "failed": counts["failed"],
            "skipped": [
                {"name": result.name, "reason": result.detail}
                for result in results
                if result.status == "skipped"
            ],
            "cases": [{"name": each.name, "status": each.status, "detail": each.detail} for each in results],
        }

    def _write_junit(self, results: Sequence[Result], path: Path) -> None:
        counts = Counter(result.status for result in results)
        numbers = {"tests": len(results), "failures": counts["failed"], "skipped": counts["skipped"]}
        attributes = {name: str(number) for name, number in numbers.items()}
        suite = ElementTree.Element("testsuite", {"name": f"server {self.command}", **attributes})
        for result in results:
            case = ElementTree.SubElement(
                suite, "testcase", {"classname": result.model, "name": result.contract}
            )
            if result.status != "passed":
                kind = "failure" if result.status == "failed" else "skipped"
                text = "".join(letter if letter.isprintable() else "\ufffd" for letter in result.detail)
                ElementTree.SubElement(case, kind, {"message": text})
        ElementTree.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)

    def _show(self, results: Sequence[Result], console: Console) -> None:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for name in ("model", self.case, "result", "detail"):
            table.add_column(name, overflow="fold")
        for result in results:
            status = f"[{COLOURS[result.status]}]{result.status}[/]"
            table.add_row(escape(result.model), escape(result.contract), status, escape(result.detail))
        console.print(table)
        counts = Counter(result.status for result in results)
        console.print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")

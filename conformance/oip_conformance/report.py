"""Test results as plain text, JSON and JUnit XML."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from .case import Case
from .outcome import Difference, Skip
from .sentences import Sentence
from .server import Server

SCHEMA = "inferstream.oip-conformance/1"


@dataclass(frozen=True)
class Result:
    """The result of a case: `passed`, `failed` or `skipped`, with the reason."""

    name: str
    function: str
    status: str
    detail: str = ""


def run(
    cases: Sequence[Case], server: Server, seen: Callable[[Result], None] = lambda result: None
) -> list[Result]:
    """Run the cases one after another, and return their results. `seen` is called with each result."""
    results = []
    for case in cases:
        results.append(_run(case, server))
        seen(results[-1])
    return results


def _run(case: Case, server: Server) -> Result:
    try:
        case.run(server)
    except Skip as skip:
        return Result(case.name, case.function, "skipped", str(skip))
    except Difference as difference:
        return Result(case.name, case.function, "failed", str(difference))
    except Exception as error:  # a response that the case could not parse
        return Result(case.name, case.function, "failed", f"the response could not be read: {error!r}")
    return Result(case.name, case.function, "passed")


def document(results: Sequence[Result]) -> dict[str, object]:
    """Return the object that `--json` prints."""
    counts = Counter(result.status for result in results)
    skipped = [
        {"name": result.name, "reason": result.detail} for result in results if result.status == "skipped"
    ]
    cases = [{"name": result.name, "status": result.status, "detail": result.detail} for result in results]
    return {
        "schema": SCHEMA,
        "passed": counts["passed"],
        "failed": counts["failed"],
        "skipped": skipped,
        "cases": cases,
    }


def as_json(results: Sequence[Result]) -> str:
    """Return the results as JSON."""
    return json.dumps(document(results), indent=1)


def write_junit(results: Sequence[Result], path: Path) -> None:
    """Write the results as JUnit XML."""
    counts = Counter(result.status for result in results)
    numbers = {"tests": len(results), "failures": counts["failed"], "skipped": counts["skipped"]}
    suite = ElementTree.Element(
        "testsuite", {"name": "oip-conformance", **{k: str(n) for k, n in numbers.items()}}
    )
    for result in results:
        room, _, name = result.name.partition(".")
        case = ElementTree.SubElement(suite, "testcase", {"classname": room, "name": name})
        if result.status != "passed":
            kind = "failure" if result.status == "failed" else "skipped"
            ElementTree.SubElement(case, kind, {"message": _printable(result.detail)})
    ElementTree.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)


def _printable(text: str) -> str:
    """Replace characters that are not allowed in XML."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)


def as_text(results: Sequence[Result], tested: dict[str, list[Sentence]]) -> str:
    """Return the results as plain text: failures with the tested sentences, and reasons for skipped cases."""
    lines = []
    for result in results:
        if result.status == "failed":
            lines.append(f"FAILED {result.name}: {result.detail}")
            lines += [
                f"    {sentence.text}\n    {sentence.source}" for sentence in tested.get(result.function, [])
            ]
    reasons = Counter(result.detail for result in results if result.status == "skipped")
    lines += [f"skipped {number}: {reason}" for reason, number in reasons.items()]
    counts = Counter(result.status for result in results)
    lines.append(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return "\n".join(lines)

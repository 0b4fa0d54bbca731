"""Results of a run: for people, as JSON, and as JUnit."""

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
    """What a case came to: `passed`, `failed` or `skipped`, and why."""

    name: str
    function: str
    status: str
    detail: str = ""


def run(
    cases: Sequence[Case], server: Server, seen: Callable[[Result], None] = lambda result: None
) -> list[Result]:
    """The results of the cases, one after the other. `seen` is given each as it is known."""
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
    except Exception as error:  # an answer so odd that the case itself could not read it
        return Result(case.name, case.function, "failed", f"the response could not be read: {error!r}")
    return Result(case.name, case.function, "passed")


def document(results: Sequence[Result]) -> dict[str, object]:
    """The results as what `--json` prints."""
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
    """The document as text."""
    return json.dumps(document(results), indent=1)


def write_junit(results: Sequence[Result], path: Path) -> None:
    """Write the results as JUnit's XML."""
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
    """Text that XML may hold."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)


def as_text(results: Sequence[Result], tested: dict[str, list[Sentence]]) -> str:
    """The results for people: each difference with its sentence, and why cases were skipped."""
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

"""The README is short, and its figures are those of the reports."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
MOST_LINES = 110

REPORTS = ("docs/performance.md", "docs/contributing/measurements.md")
CONFORMANCE = ("docs/conformance.md", "docs/contributing/conformance.md")


def report(names: tuple[str, ...]) -> str:
    """The text of the reports. Some of their tables are on another page than the results."""
    return "\n".join((ROOT / name).read_text() for name in names if (ROOT / name).exists())


def cells(row: str, names: tuple[str, ...]) -> list[str]:
    """The cells of the row of a report whose first cell matches `row`."""
    [found] = re.findall(rf"^\| {row} \|(.*)\|$", report(names), re.M)
    return [cell.strip() for cell in found.split("|")]


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= MOST_LINES


def test_shares_of_the_cpu_are_those_of_the_report() -> None:
    ratios = {
        "MLServer": float(cells(r"REST infer, FP32 \[1,4\], per request", REPORTS)[-1]),
        "LitServe": float(cells(r"LitServe [\d.]+, OpenAI spec", REPORTS)[-1]),
    }
    shares = dict(re.findall(r"^\| (\w+) \|.* about 1/(\d+) of the CPU", README, re.M))
    assert {name: round(ratio) for name, ratio in ratios.items()} == {
        name: int(share) for name, share in shares.items()
    }


def test_cases_of_the_protocol_are_those_of_the_report() -> None:
    ours, mlserver, _ = cells("All", CONFORMANCE)
    assert f"inferstream passes {ours} cases" in README
    passed = re.match(r"(\d+) of (\d+)", mlserver)
    assert passed is not None
    assert f"MLServer 1.7.1 passes {passed[1]} of the {passed[2]} that apply to it" in README
    assert "| MLServer 1.7.1 |" in report(CONFORMANCE)

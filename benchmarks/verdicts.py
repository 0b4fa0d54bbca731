"""What rounds of costs tell: ratios, their spread, and a verdict."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

ALLOWED = 1.02
"""The most that this tree may cost, as a multiple of the other commit."""

WITHIN_RATIO, WITHIN_SPREAD, ABOVE = f"within {ALLOWED} x", "within the spread", "above"

Costs = Mapping[str, Sequence[float]]
"""Costs of each round, by server: `this`, `against`, and `again`, the second server of the other commit."""


class Result(NamedTuple):
    """One row of the comparison."""

    name: str
    unit: str
    this: float
    against: float
    ratio: float
    """The median of the ratios of all rounds."""
    spread: tuple[float, float]
    """The least and the largest ratio of a round."""
    itself: tuple[float, float]
    """The same for the two servers of the other commit."""

    @property
    def verdict(self) -> str:
        if self.ratio <= ALLOWED:
            return WITHIN_RATIO
        # Which of the two servers is the numerator is chance, so a low ratio counts as its inverse does.
        return WITHIN_SPREAD if self.ratio <= max(self.itself[1], 1 / self.itself[0]) else ABOVE

    def document(self) -> dict[str, Any]:
        """The row for `--json`."""
        return {**self._asdict(), "verdict": self.verdict}


def compare(name: str, unit: str, costs: Costs) -> Result:
    """The result of a row. A round of the other commit is the mean of its two servers."""
    against = [(one + two) / 2 for one, two in zip(costs["against"], costs["again"], strict=True)]
    ratios = [ours / theirs for ours, theirs in zip(costs["this"], against, strict=True)]
    itself = [two / one for one, two in zip(costs["against"], costs["again"], strict=True)]
    return Result(
        name,
        unit,
        statistics.median(costs["this"]),
        statistics.median(against),
        statistics.median(ratios),
        (min(ratios), max(ratios)),
        (min(itself), max(itself)),
    )


def has_passed(results: Sequence[Result]) -> bool:
    return all(result.verdict != ABOVE for result in results)


def print_table(results: Sequence[Result], title: str) -> None:
    table = Table(title=title)
    for column in ("row", "unit", "this", "against", "ratio", "spread", "of itself", "verdict"):
        table.add_column(
            column, justify="left" if column in ("row", "unit", "verdict") else "right", no_wrap=True
        )
    for each in results:
        table.add_row(
            each.name,
            each.unit,
            f"{each.this:,.2f}",
            f"{each.against:,.2f}",
            f"{each.ratio:.3f}",
            "{:.3f}..{:.3f}".format(*each.spread),
            "{:.3f}..{:.3f}".format(*each.itself),
            each.verdict,
        )
    Console(width=140).print(table)

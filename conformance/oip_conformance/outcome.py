"""Outcomes of a case: it returns, or raises one of these."""

from typing import Any


class Difference(Exception):
    """The server does otherwise than a sentence says."""


class Skip(Exception):
    """The server cannot show what the case is about."""


def require(holds: bool, detail: str) -> None:
    """Raise `Difference` unless the condition holds."""
    if not holds:
        raise Difference(detail)


def expect(got: Any, expected: Any, what: str) -> None:
    """Raise `Difference`, which names both, unless they are equal."""
    require(got == expected, f"{what}: expected {short(expected)}, got {short(got)}")


def short(value: Any) -> str:
    """The value on one line, for a report."""
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:197]}..."

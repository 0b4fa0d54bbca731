"""Outcomes of a case other than passing, as exceptions."""

from typing import Any


class Difference(Exception):
    """The server's behaviour differs from the protocol."""


class Skip(Exception):
    """The case does not apply to this server or its models."""


def require(holds: bool, detail: str) -> None:
    """Raise `Difference` unless the condition is true."""
    if not holds:
        raise Difference(detail)


def expect(got: Any, expected: Any, what: str) -> None:
    """Raise `Difference` with both values unless they are equal."""
    require(got == expected, f"{what}: expected {short(expected)}, got {short(got)}")


def short(value: Any) -> str:
    """Return a value on one line of at most 200 characters, for a report."""
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:197]}..."

"""The order of versions: which one answers calls that name none."""

from collections.abc import Iterable
from functools import cmp_to_key


def newest(versions: Iterable[str | None]) -> str | None:
    """The version of calls without a version: no version at all, else the highest.

    Sorted first: numbers and texts together may have no highest, and the choice must not depend on the load order.
    """
    return max(sorted(versions, key=str), key=cmp_to_key(_compared))


def _compared(first: str | None, second: str | None) -> int:
    """Above 0 if `first` is newer: unversioned first, two numbers as numbers, others as texts."""
    if not first or not second:
        return (not first) - (not second)
    try:
        return int(first) - int(second)
    except ValueError:
        return (first > second) - (first < second)

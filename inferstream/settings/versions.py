"""The order of versions, which determines the default version."""

from collections.abc import Iterable
from functools import cmp_to_key


def newest(versions: Iterable[str | None]) -> str | None:
    """Return the version for calls without a version: the unversioned model if it exists, or the highest
    version.

    Versions are sorted first, because a mix of numbers and other strings may have no highest version, and the
    result must not depend on the load order.
    """
    return max(sorted(versions, key=str), key=cmp_to_key(_compare))


def _compare(first: str | None, second: str | None) -> int:
    """Compare two versions: unversioned is newest, two numbers compare as numbers, others as strings."""
    if not first or not second:
        return (not first) - (not second)
    try:
        return int(first) - int(second)
    except ValueError:
        return (first > second) - (first < second)

"""The public methods of a client, and the rows of the tables that stand for them."""

import inspect
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

NOT_CALLS = frozenset(("with_raw_response", "with_streaming_response", "with_options"))
"""Other views of the same methods."""


def methods_of(client: object, prefix: str = "") -> Iterator[str]:
    """The names of the methods of a client or its class, and of the groups that it has as attributes."""
    for name in dir(client):
        if name.startswith("_") or name in NOT_CALLS:
            continue
        value = getattr(client, name)
        if ".resources." in f"{type(value).__module__}." and not inspect.isroutine(value):
            yield from methods_of(value, f"{prefix}{name}.")
        elif callable(value) and not inspect.isclass(value):
            yield prefix + name


def without_a_row(methods: Iterable[str], calls: Iterable[str], skipped: Mapping[str, str]) -> list[str]:
    """Methods that no test calls, and of which no row says why. A row may stand for a group: `files.*`."""
    called = {*calls}
    return [
        name
        for name in methods
        if name not in called and not any(fnmatchcase(name, pattern) for pattern in skipped)
    ]


def both(calls: Iterable[str], skipped: Mapping[str, str]) -> list[str]:
    """Methods that are called and left out."""
    return [name for name in calls if any(fnmatchcase(name, pattern) for pattern in skipped)]


async def awaited(value: Any) -> Any:
    """What a method of a synchronous or an asynchronous client returns."""
    return await value if inspect.isawaitable(value) else value

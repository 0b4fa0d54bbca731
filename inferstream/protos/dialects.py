"""The dialects of streams and `generate`, and the names by which clients request them."""

from collections.abc import Mapping
from typing import Literal, TypeVar

from ..errors import InvalidRequest

Dialect = Literal["mlserver", "triton"]
Name = TypeVar("Name", bound=str)

HEADER = "x-stream-dialect"
"""The header, or gRPC metadata, that names the dialect a client requests, and the dialect of a response."""

NAMES: dict[Dialect, tuple[str, ...]] = {"mlserver": ("v2",), "triton": ()}
"""The dialects of `generate`, and their other names."""


def asked_dialect(word: str | None, names: Mapping[Name, tuple[str, ...]]) -> Name | None:
    """The dialect that the header's value `word` names; None without a value.

    `names` holds each dialect and its other names. Raises InvalidRequest for a name that is not among them.
    """
    if not word:
        return None
    for name, others in names.items():
        if word == name or word in others:
            return name
    known = [
        ", also called ".join(f'"{each}"' for each in (name, *others))
        for name, others in sorted(names.items())
    ]
    raise InvalidRequest(
        f"{HEADER}: {word[:40]!r} is no dialect; the dialects are {', '.join(known[:-1])}, and {known[-1]}"
    )

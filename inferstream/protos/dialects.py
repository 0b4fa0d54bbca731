"""The dialects that streams and `generate` are answered in, and the names a client asks for one with."""

from collections.abc import Mapping
from typing import Literal, TypeVar

from ..errors import InvalidRequest

Dialect = Literal["mlserver", "triton"]
Name = TypeVar("Name", bound=str)

HEADER = "x-stream-dialect"
"""The header, or gRPC metadata, by which a client asks for a dialect and a response says which it is in."""

NAMES: dict[Dialect, tuple[str, ...]] = {"mlserver": ("v2",), "triton": ()}
"""The dialects of `generate`, and their other names."""


def asked_dialect(word: str | None, names: Mapping[Name, tuple[str, ...]]) -> Name | None:
    """The dialect a client asks for with the header's value; None without one.

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

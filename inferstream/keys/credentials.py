"""Credentials of a caller: a key in its headers, or the names in its certificate."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

from .errors import Unauthenticated

SUBPROTOCOL = "inferstream.key."
"""Begins the WebSocket subprotocol with a key, for browsers, which can send no headers there."""

HEADERS = ("authorization", "x-api-key", "sec-websocket-protocol")

NAMES = frozenset((*HEADERS, *(name.encode() for name in HEADERS)))
"""Lower-case names of headers that may hold a key, as each transport has them."""

Name = TypeVar("Name", bytes, str, bytes | str)

Shown = tuple[tuple[bytes | str, bytes | str], ...]
"""The headers of a request that may hold a key, as they arrived."""


class SplitHeaders(NamedTuple):
    """The headers of a request where the server asks for keys."""

    public: Iterable[tuple[bytes | str, bytes | str]]
    """For middleware and model code, which may log them or send them elsewhere."""
    shown: Shown | None
    """Those that may hold a key. None where the server asks for none, and all headers are public."""


def split(raw: Iterable[tuple[bytes | str, bytes | str]]) -> SplitHeaders:
    """Take the headers that may hold a key out of the others."""
    shown = tuple([pair for pair in raw if pair[0] in NAMES])
    return SplitHeaders(without_keys(raw) if shown else raw, shown)


def without_keys(raw: Iterable[tuple[Name, Name]]) -> list[tuple[Name, Name]]:
    """Headers without those that may hold a key."""
    return [pair for pair in raw if pair[0] not in NAMES]


def credential(headers: Mapping[str, str]) -> str | None:
    """The key or token in headers with lower-case names, or in WebSocket subprotocols; None without one.

    Raises Unauthenticated for two that differ: which one counts would depend on who looks.
    """
    secrets = []
    authorization = headers.get("authorization", "")
    if authorization[:7].lower() == "bearer ":
        secrets.append(authorization[7:].strip())
    if (key := headers.get("x-api-key")) is not None:
        secrets.append(key.strip())
    for subprotocol in headers.get("sec-websocket-protocol", "").split(","):
        if (offered := subprotocol.strip()).startswith(SUBPROTOCOL):
            secrets.append(offered[len(SUBPROTOCOL) :])
    if len(set(secrets)) > 1:
        raise Unauthenticated("The request has two different keys.")
    return secrets[0] or None if secrets else None

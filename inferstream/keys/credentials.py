"""Credentials of a caller: a key in its headers, or the names in its certificate."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from ..types import Headers
from .errors import Unauthenticated

SUBPROTOCOL = "inferstream.key."
"""Begins the WebSocket subprotocol with a key, for browsers, which can send no headers there."""

HEADERS = ("authorization", "x-api-key", "sec-websocket-protocol")

NAMES = frozenset((*HEADERS, *(name.encode() for name in HEADERS)))
"""Lower-case names of headers that may hold a key, as each transport has them."""

Name = TypeVar("Name", bytes, str, bytes | str)

Shown = tuple[tuple[bytes | str, bytes | str], ...]
"""The headers of a request that may hold a key, as they arrived."""


class WithoutKeys(Headers):
    """Headers for model code, which may log them or send them elsewhere: all but those that may hold a key."""

    __slots__ = ()

    def __init__(self, headers: Headers) -> None:
        self._raw, self._origin = headers._raw, headers._origin
        self._more = self._decoded = None

    @property
    def raw(self) -> list[tuple[bytes | str, bytes | str]]:
        return without_keys(self._raw)


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

"""Credentials of a caller: a key in its headers, or the names in its certificate."""

from collections.abc import Iterable
from typing import TypeVar

from inferstream.ext.calls import Caller
from inferstream.types import Headers

from .errors import Unauthenticated

SUBPROTOCOL = "inferstream.key."
"""Begins the WebSocket subprotocol with a key, for browsers, which can send no headers there."""

HEADERS = ("authorization", "x-api-key", "sec-websocket-protocol")

NAMES = frozenset((*HEADERS, *(name.encode() for name in HEADERS)))
"""Lower-case names of headers that may hold a key, as each transport has them."""

Name = TypeVar("Name", bytes, str, bytes | str)

Shown = tuple[tuple[bytes | str, bytes | str], ...]
"""The headers of a request that may hold a key, as they arrived."""


def split(raw: Iterable[tuple[Name, Name]]) -> tuple[Iterable[tuple[Name, Name]], Shown]:
    """Headers without those that may hold a key, and these. Servers of ASGI may have lists for pairs."""
    shown = tuple([(name, value) for name, value in raw if name in NAMES])
    return [pair for pair in raw if pair[0] not in NAMES] if shown else raw, shown


def hide_keys(caller: Caller) -> Shown:
    """Take the headers that may hold a key out of those that middleware and models get."""
    public, shown = split(caller.headers.raw)
    caller.headers, caller.shown = Headers(public, None, caller.headers.origin), shown
    return shown


def credential(shown: Shown) -> str | None:
    """The key or token in headers, or in WebSocket subprotocols; None without one.

    Raises Unauthenticated for two that differ, also in one header that is repeated: which one counts would depend on
    who looks.
    """
    secrets = set()
    for pair in shown:
        name, value = (each if isinstance(each, str) else each.decode("latin-1") for each in pair)
        if name == "authorization":
            if value[:7].lower() == "bearer ":
                secrets.add(value[7:].strip())
        elif name == "x-api-key":
            secrets.add(value.strip())
        else:
            offered = (each.strip() for each in value.split(","))
            secrets.update(each[len(SUBPROTOCOL) :] for each in offered if each.startswith(SUBPROTOCOL))
    if len(secrets) > 1:
        raise Unauthenticated("The request has two different keys.")
    return secrets.pop() or None if secrets else None

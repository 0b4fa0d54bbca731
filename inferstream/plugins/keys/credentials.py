"""Extracts credentials from request headers."""

from collections.abc import Iterable
from typing import TypeVar

from inferstream.ext.calls import Caller
from inferstream.types import Headers

from .errors import Unauthenticated

SUBPROTOCOL = "inferstream.key."
"""The prefix of WebSocket subprotocols that carry a key, for browsers, which cannot set headers."""

HEADERS = ("authorization", "x-api-key", "sec-websocket-protocol")

NAMES = frozenset((*HEADERS, *(name.encode() for name in HEADERS)))
"""Lower-case names of headers that may contain a key, as `str` and `bytes`."""

Name = TypeVar("Name", bytes, str, bytes | str)

Shown = tuple[tuple[bytes | str, bytes | str], ...]
"""Original headers of a request that may contain a key."""


def split(raw: Iterable[tuple[Name, Name]]) -> tuple[Iterable[tuple[Name, Name]], Shown]:
    """Split headers into public headers and headers that may contain a key.

    Accepts lists in place of pairs, because some ASGI servers pass them.
    """
    shown = tuple([(name, value) for name, value in raw if name in NAMES])
    return [pair for pair in raw if pair[0] not in NAMES] if shown else raw, shown


def hide_keys(caller: Caller) -> Shown:
    """Remove the headers that may contain a key from the headers that middleware and models can read."""
    public, shown = split(caller.headers.raw)
    caller.headers, caller.shown = Headers(public, None, caller.headers.origin), shown
    return shown


def find_credential(shown: Shown) -> str | None:
    """Return the key or token in the headers or WebSocket subprotocols. Returns None if there is none.

    Raises Unauthenticated if there are two different ones, even in one repeated header. Otherwise proxies and
    the server could disagree on which one is valid.
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

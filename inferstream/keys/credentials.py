"""What a caller shows: a key in its headers, or the names in its certificate."""

from collections.abc import Iterable, Mapping

from .errors import Unauthenticated

SUBPROTOCOL = "inferstream.key."
"""Begins the WebSocket subprotocol with a key, for browsers, which can send no headers there."""


def credential(headers: Mapping[str, str], subprotocols: Iterable[str] = ()) -> str | None:
    """The key or token in headers with lower-case names, or in WebSocket subprotocols; None without one.

    Raises Unauthenticated for two that differ: which one counts would depend on who looks.
    """
    found = None
    authorization = headers.get("authorization")
    if authorization is not None and (
        authorization.startswith("Bearer ") or authorization[:7].lower() == "bearer "
    ):
        found = authorization[7:].strip()
    key = headers.get("x-api-key")
    if key is not None:
        key = key.strip()
        if found is not None and found != key:
            raise Unauthenticated("The request has two different keys.")
        found = key
    for subprotocol in subprotocols:
        if subprotocol.startswith(SUBPROTOCOL):
            key = subprotocol[len(SUBPROTOCOL) :]
            if found is not None and found != key:
                raise Unauthenticated("The request has two different keys.")
            found = key
    return found or None

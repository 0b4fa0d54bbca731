"""Validation of request ids, on every transport."""

from ..errors import InvalidRequest

MAX_ID = 1024
"""The maximum length of a request id, in characters. Each response and each stream event repeats the id."""


def check_id(id: str) -> str:
    """Return an id if it is safe in logs and responses.

    Raises InvalidRequest if it is too long or has unprintable characters.
    """
    if not id.isprintable():
        raise InvalidRequest("id must be printable characters")
    if len(id) > MAX_ID:
        raise InvalidRequest(f"id {id[:40]!r}... has {len(id)} characters, at most {MAX_ID} are allowed")
    return id

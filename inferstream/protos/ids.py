"""The limit of the length of request ids, on every transport."""

from ..errors import InvalidRequest

MAX_ID = 1024
"""Characters of a request's id. Each response, and each event of a stream, repeats the id."""


def too_long_id(id: str) -> InvalidRequest:
    """The error for an id of more than MAX_ID characters."""
    return InvalidRequest(f"id {id[:40]!r}... has {len(id)} characters, at most {MAX_ID} are allowed")

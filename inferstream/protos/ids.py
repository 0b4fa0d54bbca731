"""The length of request ids, which is the same on every transport."""

from ..errors import InvalidRequest

MAX_ID = 1024
"""Characters of a request's id. Responses repeat it, and so does each event of a stream."""


def too_long_id(id: str) -> InvalidRequest:
    """The error for an id of more than MAX_ID characters."""
    return InvalidRequest(f"id {id[:40]!r}... has {len(id)} characters, at most {MAX_ID} are allowed")

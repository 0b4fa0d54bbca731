"""The rules of request ids, on every transport."""

from ..errors import InvalidRequest

MAX_ID = 1024
"""Characters of a request's id. Each response, and each event of a stream, repeats the id."""


def check_id(id: str) -> str:
    """An id that is safe in logs and responses. Raises InvalidRequest for control characters and for a longer one."""
    if not id.isprintable():
        raise InvalidRequest("id must be printable characters")
    if len(id) > MAX_ID:
        raise InvalidRequest(f"id {id[:40]!r}... has {len(id)} characters, at most {MAX_ID} are allowed")
    return id

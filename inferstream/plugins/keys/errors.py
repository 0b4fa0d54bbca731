"""Errors for rejected credentials and exceeded limits."""

from inferstream.errors import HINT, Code, Refused

_SECOND = 1_000_000_000
"""Nanoseconds per second."""

NEEDS_KEY = f"The request needs a valid key{HINT}send it in the header `Authorization: Bearer KEY`"


class Unauthenticated(Refused):
    """The caller sent no valid key. The message does not reveal which part of a key was wrong."""

    refuses_caller = True

    def __init__(self, message: str = NEEDS_KEY) -> None:
        super().__init__(message, 401)


class LimitExceeded(Refused):
    """A limit of the caller is exceeded. `limit` is its field name in the keys file and in the error body.

    A retry can succeed after `wait` nanoseconds. `wait` is None if waiting does not help, for example for a
    limit of 0.
    """

    refuses_caller = True

    def __init__(self, limit: str, amount: float, wait: int | None) -> None:
        seconds = None if wait is None else max(1, -(-wait // _SECOND))
        super().__init__(f"The limit {limit} of {amount:.15g} is reached.", 429, seconds)
        self.limit = limit
        self.fields = {"limit": limit}
        self.code = Code.LIMIT_EXCEEDED

"""The refusals of keys."""

from ..errors import Code, Refused

_SECOND = 1_000_000_000
"""Nanoseconds."""


class Unauthenticated(Refused):
    """The caller sent no valid key. The message never says which part of a key was wrong."""

    refuses_caller = True

    def __init__(self, message: str = "The request needs a valid key.") -> None:
        super().__init__(message, 401)


class LimitExceeded(Refused):
    """A limit of the caller is reached. `limit` is its field in the keys file, and of the body of the error.

    After `wait` nanoseconds there is enough again; None where waiting does not help, as for a limit of 0.
    """

    refuses_caller = True

    def __init__(self, limit: str, amount: float, wait: int | None) -> None:
        seconds = None if wait is None else max(1, -(-wait // _SECOND))
        super().__init__(f"The limit {limit} of {amount:.15g} is reached.", 429, seconds)
        self.limit = limit
        self.fields = {"limit": limit}
        self.code = Code.LIMIT_EXCEEDED

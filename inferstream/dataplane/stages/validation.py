"""Refuses a bad request before it costs anything."""

from collections.abc import Awaitable

from ..call import Call
from ..checks import Declaration
from ..handler import Handler
from ..reply import Reply


class Validation:
    """Checks the first request of every call against the protocol and the model's declaration."""

    def __init__(self, inner: Handler, declaration: Declaration) -> None:
        self._inner = inner
        self._declaration = declaration

    def __call__(self, call: Call) -> Awaitable[Reply]:
        self._declaration.check(call.request)
        return self._inner(call)

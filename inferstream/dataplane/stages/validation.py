"""Refuses a bad request before it costs anything."""

from collections.abc import Awaitable
from dataclasses import replace

from ..call import Call
from ..checks import Checks
from ..handler import Handler
from ..reply import Reply
from .base import Pipeline, Shared


class Validation:
    """Checks the first request of a call against the protocol and the model's declaration."""

    def __init__(self, inner: Handler, checks: Checks) -> None:
        self._inner = inner
        self._checks = checks

    def __call__(self, call: Call) -> Awaitable[Reply]:
        self._checks.check(call.request)
        return self._inner(call)


def validation(model: Pipeline, shared: Shared) -> Pipeline:
    return replace(model, handler=Validation(model.handler, model.checks))

"""A stage that refuses calls with the header `x-hush`."""

from collections.abc import Awaitable
from dataclasses import replace

from inferstream.dataplane.stages.base import Pipeline, Shared
from inferstream.errors import PermissionDenied
from inferstream.ext.calls import Call, Handler, Reply


class Hush:
    def __init__(self, inner: Handler) -> None:
        self._inner = inner

    def __call__(self, call: Call) -> Awaitable[Reply]:
        if "x-hush" in call.headers:
            raise PermissionDenied("hush")
        return self._inner(call)


def hush(model: Pipeline, shared: Shared) -> Pipeline:
    if model.settings.name == "free":
        return model  # this stage is off for it
    return replace(model, handler=Hush(model.handler), refuse=None)

"""A stage that refuses calls with the header that a setting names."""

from collections.abc import Awaitable
from dataclasses import replace

from inferstream.dataplane.stages.base import Pipeline, Shared
from inferstream.errors import PermissionDenied
from inferstream.ext.calls import Call, Handler, Reply

from .settings import ShoutSettings


class Hush:
    def __init__(self, inner: Handler, header: str) -> None:
        self._inner = inner
        self._header = header

    def __call__(self, call: Call) -> Awaitable[Reply]:
        if self._header in call.headers:
            raise PermissionDenied("hush")
        return self._inner(call)


def hush(model: Pipeline, shared: Shared) -> Pipeline:
    if model.settings.name == "free":
        return model  # this stage is off for it
    header = shared.settings.section(ShoutSettings).shout_hush_header
    return replace(model, handler=Hush(model.handler, header), refuse=None)

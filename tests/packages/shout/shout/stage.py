"""A stage that refuses calls with the header `x-hush`."""

from collections.abc import Awaitable

from inferstream.errors import PermissionDenied
from inferstream.ext.calls import Call, Handler, Reply, StageContext, StagedModel


class Hush:
    def __init__(self, inner: Handler) -> None:
        self._inner = inner

    def __call__(self, call: Call) -> Awaitable[Reply]:
        if "x-hush" in call.headers:
            raise PermissionDenied("hush")
        return self._inner(call)


def hush(model: StagedModel, shared: StageContext) -> StagedModel:
    if model.settings.name == "free":
        return model  # this stage is off for it
    return model.around(Hush(model.handler), refuse=None)

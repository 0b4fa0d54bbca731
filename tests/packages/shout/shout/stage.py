"""A stage that refuses calls with the header that a setting names."""

from collections.abc import Awaitable

from inferstream.errors import PermissionDenied
from inferstream.ext.calls import Call, Handler, Reply, StageContext, StagedModel

from .meters import HushMeters
from .settings import ShoutSettings
from .volume import VOLUME


class Hush:
    def __init__(self, inner: Handler, header: str, meters: HushMeters) -> None:
        self._inner = inner
        self._header = header
        self._meters = meters

    def __call__(self, call: Call) -> Awaitable[Reply]:
        if self._header in call.headers:
            self._meters.refused += 1
            raise PermissionDenied("hush")
        if "x-silent" in call.headers:
            VOLUME.set(call, 0)
        return self._inner(call)


def hush(model: StagedModel, shared: StageContext) -> StagedModel:
    if model.settings.name == "free":
        return model  # this stage is off for it
    header = shared.settings.section(ShoutSettings).shout_hush_header
    return model.around(Hush(model.handler, header, model.meters.of(HushMeters)), refuse=None)

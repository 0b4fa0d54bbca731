"""Health, readiness and metadata, and the KServe list of model names."""

from collections.abc import Sequence
from functools import partial

from ....dataplane.access import Action
from ....dataplane.caller import Caller
from ....dataplane.dataplane import DataPlane
from ....errors import ModelNotReady
from ..messages import JSON, Scope
from .base import Answer, HttpDialect, ReadClaim, ReadRoute, in_json

ROOT = "/"

LIVE = "/v2/health/live"

ALIVE = {ROOT: b'{"status":"alive"}', LIVE: b'{"live":true}'}
"""Liveness paths and their response bodies."""


class Metadata(HttpDialect):
    """Liveness, readiness and metadata of the server and its models."""

    _dataplane: DataPlane

    name = "metadata"

    def reads(self) -> Sequence[ReadClaim]:
        return [
            ReadClaim(ROOT, Action.HEALTH, partial(_alive, ALIVE[ROOT]), gives_way=True),
            ReadClaim(LIVE, Action.HEALTH, partial(_alive, ALIVE[LIVE])),
            ReadClaim("/v2", Action.SERVER_METADATA, self._server),
            ReadClaim("/v2/health/ready", Action.HEALTH, self._ready),
            ReadClaim("/v2/models", Action.SERVER_METADATA, self._names),
            ReadClaim("/v2/models/{name}", Action.MODEL_METADATA, self._model),
            ReadClaim("/v2/models/{name}/ready", Action.HEALTH, self._model_ready),
        ]

    async def _server(self, *_: object) -> Answer:
        return in_json(self._dataplane.server_metadata().model_dump(mode="json"))

    async def _ready(self, *_: object) -> Answer:
        if self._dataplane.ready:
            return 200, [JSON], b'{"ready":true,"live":true}'
        return 503, [JSON], b'{"error":"The server is not ready.","ready":false,"live":true}'

    async def _names(self, _: ReadRoute, caller: Caller, __: Scope) -> Answer:
        names = sorted({name for name, _ in self._dataplane.models(caller)})
        return in_json({"models": names})

    async def _model(self, route: ReadRoute, *_: object) -> Answer:
        metadata = await self._dataplane.model_metadata(route.model, route.version)
        return in_json(metadata.model_dump(mode="json"))

    async def _model_ready(self, route: ReadRoute, *_: object) -> Answer:
        if not self._dataplane.model_ready(route.model, route.version):
            raise ModelNotReady(route.model, route.version)
        return in_json({"name": route.model, "ready": True})


async def _alive(body: bytes, *_: object) -> Answer:
    return 200, [JSON], body

"""Health, readiness and metadata; also KServe's list of the models' names."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import orjson

from ....dataplane.access import Action
from ....dataplane.caller import Caller
from ....errors import ModelNotReady
from ....types import BaseModel
from ..messages import JSON, RawHeaders, Scope
from .base import GET, HttpDialect, ReadClaim, ReadRoute, ScopeClaim

ROOT = "/"
ROOT_METHODS = ("GET", "HEAD")
"""Ollama's command sends HEAD before anything else."""

ALIVE = {ROOT: b'{"status":"alive"}', "/v2/health/live": b'{"live":true}'}
"""The paths that say that the server is alive, and what they answer."""

StatusAndBody = tuple[int, bytes]


class Metadata(HttpDialect):
    """What the server and its models say of themselves."""

    name = "metadata"

    def reads(self) -> Sequence[ReadClaim | ScopeClaim]:
        # With a page, its dialect owns the root.
        alive = {path: body for path, body in ALIVE.items() if path != ROOT or not self._settings.page}
        return [
            *(
                ReadClaim(path, Action.HEALTH, partial(_alive, body), ROOT_METHODS if path == ROOT else GET)
                for path, body in alive.items()
            ),
            ReadClaim("/v2", Action.SERVER_METADATA, self._server),
            ReadClaim("/v2/", Action.SERVER_METADATA, self._server),
            ReadClaim("/v2/health/ready", Action.HEALTH, self._ready),
            ScopeClaim("/v2/models", Action.SERVER_METADATA, self._names),
            ReadClaim("/v2/models/{name}", Action.MODEL_METADATA, self._model),
            ReadClaim("/v2/models/{name}/ready", Action.HEALTH, self._model_ready),
        ]

    async def _server(self, _: ReadRoute) -> StatusAndBody:
        return 200, _json(self._dataplane.server_metadata())

    async def _ready(self, _: ReadRoute) -> StatusAndBody:
        if self._dataplane.ready:
            return 200, b'{"ready":true,"live":true}'
        return 503, b'{"error":"The server is not ready.","ready":false,"live":true}'

    async def _names(self, _: ReadRoute, caller: Caller, __: Scope) -> tuple[int, RawHeaders, bytes]:
        names = sorted({name for name, _ in self._dataplane.models(caller)})
        return 200, [JSON], _json({"models": names})

    async def _model(self, route: ReadRoute) -> StatusAndBody:
        return 200, _json(await self._dataplane.model_metadata(route.model, route.version))

    async def _model_ready(self, route: ReadRoute) -> StatusAndBody:
        if not self._dataplane.model_ready(route.model, route.version):
            raise ModelNotReady(route.model, route.version)
        return 200, _json({"name": route.model, "ready": True})


async def _alive(body: bytes, _: ReadRoute) -> StatusAndBody:
    return 200, body


def _json(value: Any) -> bytes:
    return orjson.dumps(value.model_dump(mode="json") if isinstance(value, BaseModel) else value)

"""What is asked of a server all the time: health, readiness, metadata, metrics; answered without FastAPI."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple

import orjson

from ...dataplane.dataplane import DataPlane
from ...errors import ModelNotReady
from ...settings import Settings
from ...telemetry.metrics import CONTENT_TYPE, Meters
from ...types import BaseModel
from .messages import JSON, RawHeaders, Scope, Send, error_response, respond, wrap
from .routes import MODELS, VERSIONS

READY = "/ready"
ELSEWHERE = ("/docs", "/docs/dataplane.json", "/stream")
"""What a path of a model ends with that has its answer elsewhere."""

POSTED = "Method Not Allowed: a model is sent POST at its infer, infer_stream, generate or generate_stream"
"""Most likely a slip in the last word of an inference's path."""

ALIVE = {"/": b'{"status":"alive"}', "/v2/health/live": b'{"live":true}'}
"""The routes that say that the server is alive, and what they answer."""

StatusAndBody = tuple[int, bytes]
"""Status and body."""


class MetadataRoute(NamedTuple):
    """One of these routes."""

    path: str
    """The route as traces name it."""
    ask: Callable[[], Awaitable[StatusAndBody]]
    content_type: bytes = b"application/json"


class MetadataRoutes:
    """The routes by their paths; `settings` may name one for the metrics."""

    def __init__(self, dataplane: DataPlane, settings: Settings, meters: Meters) -> None:
        self._dataplane = dataplane
        self._meters = meters
        self._profile = settings.status_profile
        asks: dict[str, Callable[[], Awaitable[StatusAndBody]]] = {
            **{path: partial(_alive, body) for path, body in ALIVE.items()},
            "/v2": self._server,
            "/v2/": self._server,
            "/v2/health/ready": self._ready,
        }
        self._fixed = {path: MetadataRoute(path, ask) for path, ask in asks.items()}
        if path := settings.metrics_endpoint:
            self._fixed[path] = MetadataRoute(path, self._metrics, CONTENT_TYPE.encode())

    def find(self, path: str) -> MetadataRoute | None:
        """The route of a decoded path; None for every other path."""
        found = self._fixed.get(path)
        if found is None and path.startswith(MODELS):
            rest = path[len(MODELS) :]
            return None if rest.endswith(ELSEWHERE) else self._of_model(rest)
        return found

    def _of_model(self, rest: str) -> MetadataRoute:
        name = rest.removesuffix(READY)
        ask, end = (self._model, "") if name == rest else (self._model_ready, READY)
        before, _, version = name.rpartition(VERSIONS)
        # A name may hold slashes: what looks like a version is one where nothing follows it.
        if version == name or not version or "/" in version:
            return MetadataRoute(f"{MODELS}{{name}}{end}", partial(ask, name, None))
        return MetadataRoute(f"{MODELS}{{name}}{VERSIONS}{{version}}{end}", partial(ask, before, version))

    async def respond(self, route: MetadataRoute, scope: Scope, send: Send) -> None:
        """Answer a request to `vital`, errors included."""
        scope["route"] = route
        if scope["method"] != "GET":
            posted = scope["method"] == "POST" and scope["path"].startswith(MODELS)
            body = _json({"error": POSTED if posted else "Method Not Allowed"})
            await respond(send, 405, body, [JSON, (b"allow", b"GET")])
            return
        headers: RawHeaders = [(b"content-type", route.content_type)]
        try:
            status, body = await route.ask()
        except Exception as error:
            status, headers, body = error_response(wrap(error), self._profile)
        await respond(send, status, body, headers)

    async def _ready(self) -> StatusAndBody:
        if self._dataplane.ready:
            return 200, b'{"ready":true,"live":true}'
        return 503, b'{"error":"The server is not ready.","ready":false,"live":true}'

    async def _server(self) -> StatusAndBody:
        return 200, _json(self._dataplane.server_metadata())

    async def _metrics(self) -> StatusAndBody:
        return 200, await self._meters.scrape()

    async def _model_ready(self, name: str, version: str | None) -> StatusAndBody:
        if not self._dataplane.model_ready(name, version):
            raise ModelNotReady(name, version)
        return 200, _json({"name": name, "ready": True})

    async def _model(self, name: str, version: str | None) -> StatusAndBody:
        return 200, _json(await self._dataplane.model_metadata(name, version))


async def _alive(body: bytes) -> StatusAndBody:
    return 200, body


def _json(value: Any) -> bytes:
    return orjson.dumps(value.model_dump(mode="json") if isinstance(value, BaseModel) else value)

"""Resources of the server: its repository, access log, `.proto` files, and the WebSocket path."""

from collections.abc import AsyncGenerator, Sequence
from functools import partial
from typing import Any

import orjson
from pydantic import TypeAdapter, ValidationError

from ....dataplane.access import Action
from ....dataplane.caller import Caller
from ....dataplane.dataplane import DataPlane
from ....errors import InvalidRequest, NotFound, Overloaded
from ....protos.proto_files import ProtoFile, published_files
from ....protos.sse import HEARTBEAT, event, named_event
from ....telemetry.access import AccessRecord, Subscribers
from ....types import MetadataTensor
from ..messages import JSON, RawHeaders, Scope
from ..origins import Origins
from ..query import parse_query
from .base import VERSIONS, Answer, HttpDialect, ReadClaim, ReadRoute, in_json

POST = ("POST",)

SILENCE = 15.0
"""Seconds of silence before a comment is sent, which detects a disconnect."""

STREAM: RawHeaders = [
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
    (b"content-type", b"text/event-stream; charset=utf-8"),
]

TEXT = (b"content-type", b"text/plain; charset=utf-8")

LOAD_PARAMETERS = "a load takes a name only: what a model is, its folder says"

ARGUMENTS = (
    MetadataTensor(name="model", datatype="BYTES", shape=[1]),
    MetadataTensor(name="errors", datatype="BOOL", shape=[1]),
)
"""Query arguments of the access log, which limit it to one model or to failed calls."""


class Resources(HttpDialect):
    """Resources of the server. The names in their paths are not necessarily loaded models."""

    _dataplane: DataPlane

    name = "resources"
    of_models = False

    def reads(self) -> Sequence[ReadClaim]:
        models = "/v2/repository/models/{name}"
        return [
            ReadClaim("/v2/repository/index", Action.REPOSITORY_READ, self._index, POST, takes_body=True),
            ReadClaim(f"{models}/load", Action.REPOSITORY_WRITE, self._load, POST, takes_body=True),
            ReadClaim(f"{models}/unload", Action.REPOSITORY_WRITE, self._unload, POST, takes_body=True),
            ReadClaim("/v2/access", Action.ACCESS_LOG, self._access, ("GET",)),  # HEAD would hang
            ReadClaim("/proto", Action.REFLECTION, self._protos),
            ReadClaim("/proto/{name}", Action.REFLECTION, self._proto),
            ReadClaim("/v2/models/{name}/stream", Action.STREAM, self._socket),
        ]

    async def _index(self, route: ReadRoute, caller: Caller, _: Scope) -> Answer:
        ready = _flag(route.document().get("ready"))
        items = await self._dataplane.index(caller, ready)
        return in_json([item.model_dump(mode="json") for item in items])

    async def _load(self, route: ReadRoute, caller: Caller, _: Scope) -> Answer:
        if route.document().get("parameters"):
            raise InvalidRequest(LOAD_PARAMETERS)
        await self._dataplane.load(_name(route), caller)
        return in_json({"name": _name(route), "load": True})

    async def _unload(self, route: ReadRoute, caller: Caller, _: Scope) -> Answer:
        route.document()
        await self._dataplane.unload(_name(route), caller)
        return in_json({"name": _name(route), "unload": True})

    async def _access(
        self, _: ReadRoute, caller: Caller, scope: Scope
    ) -> tuple[int, RawHeaders, AsyncGenerator[bytes, None]]:
        """Stream the access log as events. Raises PermissionDenied, InvalidRequest or Overloaded."""
        Origins(self._settings).check_page(scope["headers"])
        asked = parse_query(scope["query_string"], ARGUMENTS)
        subscribers = self._dataplane.subscribers()
        if subscribers.full:
            raise Overloaded("Too many clients follow the access log.")
        return 200, STREAM, _events(subscribers, asked.get("model"), asked.get("errors", False))

    async def _protos(self, _: ReadRoute, caller: Caller, scope: Scope) -> Answer:
        prefix = self._prefix(scope)
        return in_json(
            [
                {"name": file.name, "services": file.services, "path": f"{prefix}/proto/{file.name}"}
                for file in self._files(caller)
            ]
        )

    async def _proto(self, route: ReadRoute, caller: Caller, _: Scope) -> Answer:
        files = self._files(caller)
        for file in files:
            if file.name == _name(route):
                return 200, [TEXT], file.text.encode()
        names = ", ".join(file.name for file in files)
        raise NotFound(f'There is no file "{_name(route)}". The files are: {names}')

    def _files(self, caller: Caller) -> list[ProtoFile]:
        """Return the `.proto` files, including the typed RPCs of loaded models that the caller may see."""
        sees = partial(self._dataplane.access.sees, caller)
        return published_files(model for model in self._dataplane.typed_models() if sees(model[0]))

    async def _socket(self, *_: object) -> Answer:
        return 426, [(b"upgrade", b"websocket"), JSON], b'{"error":"This route opens a WebSocket."}'


def _name(route: ReadRoute) -> str:
    """Return the complete name in the path, even if its end looks like a version."""
    return route.model if route.version is None else f"{route.model}{VERSIONS}{route.version}"


def _flag(value: Any) -> bool | None:
    """Parse the flag `ready`. MLServer clients may send a string or a number, which pydantic converts."""
    try:
        return _FLAG.validate_python(value)
    except ValidationError:
        raise InvalidRequest('"ready" must be true or false') from None


_FLAG: TypeAdapter[bool | None] = TypeAdapter(bool | None)


async def _events(subscribers: Subscribers, model: str | None, errors: bool) -> AsyncGenerator[bytes, None]:
    # Subscribe on the first iteration: the `finally` block of a generator that never starts does not run.
    subscriber = subscribers.open(model, errors)
    try:
        yield HEARTBEAT
        while True:
            ended = subscriber.ended
            records, dropped = await subscriber.read(SILENCE)
            if dropped:
                yield named_event("dropped", orjson.dumps({"dropped": dropped}))
            yield b"".join(event(_line(record)) for record in records) or HEARTBEAT
            if ended:
                return
    finally:
        subscribers.close(subscriber)


def _line(record: AccessRecord) -> bytes:
    return orjson.dumps({"time": record.time, **record.fields()})

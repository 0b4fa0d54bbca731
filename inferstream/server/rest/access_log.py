"""`GET /v2/access`: the access log of the running server as server-sent events."""

from collections.abc import AsyncIterator

import orjson
from fastapi import FastAPI, Request, Response
from starlette.responses import StreamingResponse

from ...dataplane.dataplane import DataPlane
from ...errors import InvalidRequest, Overloaded
from ...protos.sse import HEARTBEAT, event, named_event
from ...telemetry.access import AccessRecord, Subscribers
from .origins import Origins
from .paths import ACCESS
from .query import TRUE_FALSE

SILENCE = 15.0
"""Seconds before a comment, which finds a client that has left."""

HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


def add_access_log(app: FastAPI, dataplane: DataPlane, origins: Origins) -> None:
    """Add the route to `app`. It is open to the clients that the repository API is open to."""

    @app.get(ACCESS)
    async def access(request: Request) -> Response:
        origins.check_page(request.scope["headers"])
        model, errors = request.query_params.get("model"), _flag(request, "errors")
        subscribers = dataplane.subscribers()
        if subscribers.full:
            raise Overloaded("Too many clients follow the access log.")
        events = _events(subscribers, model, errors)
        return StreamingResponse(events, media_type="text/event-stream", headers=HEADERS)


def _flag(request: Request, name: str) -> bool:
    """A truth value in the query, false by default. Raises InvalidRequest."""
    text = request.query_params.get(name, "false")
    if text.lower() not in TRUE_FALSE:
        raise InvalidRequest(f'argument "{name}" takes true or false, got {text[:100]!r}')
    return TRUE_FALSE[text.lower()]


async def _events(subscribers: Subscribers, model: str | None, errors: bool) -> AsyncIterator[bytes]:
    # The client subscribes in the first step: a generator that never begins has no `finally`.
    subscriber = subscribers.open(model, errors)
    try:
        yield HEARTBEAT
        while True:
            ended = subscriber.ended
            records, dropped = await subscriber.read(SILENCE)
            if dropped:
                yield named_event("dropped", orjson.dumps({"dropped": dropped}))
            yield b"".join(event(_json(record)) for record in records) or HEARTBEAT
            if ended:
                return
    finally:
        subscribers.close(subscriber)


def _json(record: AccessRecord) -> bytes:
    return orjson.dumps({"time": record.time, **record.fields()})

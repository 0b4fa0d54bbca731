"""Layers of ASGI: ids of requests, and what is noted of responses."""

import logging
from collections.abc import Awaitable
from time import perf_counter, time
from typing import Any

from ...context import request_id_var
from ...telemetry.access import AccessLines, AccessRecord
from ...telemetry.masks import without_keys
from ..request_ids import HEADER, RequestIds
from .messages import Receive, Scope, Send

logger = logging.getLogger("inferstream.rest")


class IdentifiedApp:
    """Gives each response of an application the X-Request-Id of its request. Other requests pass as they are."""

    def __init__(self, app: Any, ids: RequestIds) -> None:
        self._app = app
        self._ids = ids

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        request_id = self._ids.among(scope["headers"])
        if request_id is None:  # without a coroutine of this layer's own
            passed: Awaitable[None] = self._app(scope, receive, send)
            return passed
        return self._serve(request_id, scope, receive, send)

    async def _serve(self, request_id: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        async def identified(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = [pair for pair in message["headers"] if pair[0].lower() != HEADER]
                message = {**message, "headers": [*headers, (HEADER, request_id)]}
            await send(message)

        token = request_id_var.set(request_id.decode())
        try:
            await self._app(scope, receive, identified)
        finally:
            request_id_var.reset(token)


def noted_send(scope: Scope, send: Send, lines: AccessLines) -> Send:
    """`send`, with a line in the log, and a record in the access log if the request failed.

    One that succeeds is no call of a model.
    """
    began = perf_counter()

    async def noted(message: Any) -> None:
        if message["type"] == "http.response.start":
            what, status = f"{scope['method']} {without_keys(scope['path'])}", message["status"]
            logger.debug("%s %d", what, status)
            if status >= 400:
                call = (what, "", "", str(status), perf_counter() - began, 0)
                lines.put(AccessRecord(time(), "http", *call, "", "", "", "", request_id_var.get()))
        await send(message)

    return noted

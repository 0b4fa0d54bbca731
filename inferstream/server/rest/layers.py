"""ASGI middleware: request ids, and the logging of responses."""

import logging
from collections.abc import Awaitable
from time import perf_counter, time
from typing import Any

from ...context import request_id_var
from ...telemetry.access import AccessLines, AccessRecord
from ...telemetry.masks import mask_keys
from ..request_ids import HEADER, RequestIds
from .messages import Receive, Scope, Send

logger = logging.getLogger("inferstream.rest")


class IdentifiedApp:
    """Adds the X-Request-Id of a request to its response. Requests without an id pass through unchanged."""

    def __init__(self, app: Any, ids: RequestIds) -> None:
        self._app = app
        self._ids = ids

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        request_id = self._ids.choose_from_headers(scope["headers"])
        if request_id is None:  # avoid a coroutine for this layer
            passed: Awaitable[None] = self._app(scope, receive, send)
            return passed
        return self._serve(request_id, scope, receive, send)

    async def _serve(self, request_id: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_id(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = [pair for pair in message["headers"] if pair[0].lower() != HEADER]
                message = {**message, "headers": [*headers, (HEADER, request_id)]}
            await send(message)

        token = request_id_var.set(request_id.decode())
        try:
            await self._app(scope, receive, send_with_id)
        finally:
            request_id_var.reset(token)


def log_responses(scope: Scope, send: Send, lines: AccessLines) -> Send:
    """Wrap `send` to log each response, and to add failed requests to the access log.

    Successful requests are not added, because they are not model calls.
    """
    began = perf_counter()

    async def send_and_note(message: Any) -> None:
        if message["type"] == "http.response.start":
            what, status = f"{scope['method']} {mask_keys(scope['path'])}", message["status"]
            logger.debug("%s %d", what, status)
            if status >= 400:
                call = (what, "", "", str(status), perf_counter() - began, 0)
                lines.put(AccessRecord(time(), "http", *call, "", "", "", "", request_id_var.get()))
        await send(message)

    return send_and_note

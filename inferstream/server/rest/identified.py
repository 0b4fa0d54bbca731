"""An ASGI layer that gives each response the X-Request-Id of its request."""

from collections.abc import Awaitable
from typing import Any

from ...context import request_id_var
from ..request_ids import HEADER, RequestIds
from .messages import Receive, Scope, Send


class IdentifiedApp:
    """Around an application. Requests without an id pass as they are."""

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

"""Runs BlazeRPC middleware around the calls of an app."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter
from typing import Any

from inferstream import App, CallEnd, CallInfo
from inferstream.errors import Code, InferstreamError
from inferstream.ext.http import STATUSES, status_of

from .context import find_peer
from .grpclib import RecvRequest, SendTrailingMetadata, find_status, to_http_status
from .middleware import ExceptionMiddleware, TransportMiddleware
from .registry import rpc_path

logger = logging.getLogger("blazerpc.middleware")

FAILED = "The server failed; its log says why."
"""The message of an error without details."""

Reply = Any
"""The reply of the inner middleware, which is returned unchanged."""


class AroundCalls:
    """App middleware that calls `on_request` and `on_response` of each object, in list order.

    For a stream, `on_response` runs after it ends, in a separate task.
    """

    def __init__(self, app: App, middlewares: Sequence[Any]) -> None:
        self._app = app
        self._middlewares = [
            each.as_middleware() if isinstance(each, TransportMiddleware) else each for each in middlewares
        ]
        self._tasks: set[asyncio.Task[None]] = set()
        for each in middlewares:
            if isinstance(each, ExceptionMiddleware):
                for exception, status in each.statuses.items():
                    app.error(exception, status=to_http_status(status))

    async def __call__(self, call: CallInfo, call_next: Callable[[Any], Awaitable[Reply]]) -> Reply:
        headers = call.headers
        request = RecvRequest(
            headers,
            rpc_path(call.model),
            find_peer(headers),
            call.face,
            headers.get("user-agent"),
            headers.get("content-type", ""),
        )
        began = perf_counter()
        try:
            for each in self._middlewares:
                await each.on_request(request)
            reply = await call_next(call)
        except Exception as error:
            name, message = _failure(self._app.errors.translate(error))
            await self._respond(request, name, message, perf_counter() - began)
            raise
        except BaseException:  # The call was cancelled.
            self._respond_later(request, "CANCELLED", None, perf_counter() - began)
            raise
        if call.operation == "stream":
            call.on_end(lambda end: self._respond_later(request, status_name(end), None, end.seconds))
        else:
            await self._respond(request, "OK", None, perf_counter() - began)
        return reply

    async def _respond(self, request: RecvRequest, name: str, message: str | None, seconds: float) -> None:
        event = SendTrailingMetadata(
            request.metadata,
            find_status(name),
            message,
            request.method_name,
            request.peer,
            seconds,
            request.transport,
        )
        for each in self._middlewares:
            try:
                await each.on_response(event)
            except Exception:  # The response is complete, and must still be sent.
                logger.exception("on_response of %s failed", type(each).__name__)

    def _respond_later(self, request: RecvRequest, name: str, message: str | None, seconds: float) -> None:
        task = asyncio.get_running_loop().create_task(self._respond(request, name, message, seconds))
        self._tasks.add(task)  # The event loop keeps only weak references to tasks.
        task.add_done_callback(self._tasks.discard)


def _failure(error: Exception) -> tuple[str, str]:
    """Return the gRPC status name and the message of a failed call."""
    if isinstance(error, InferstreamError):
        return status_of(error).grpc, error.message
    return STATUSES[Code.INTERNAL].grpc, FAILED


def status_name(end: CallEnd) -> str:
    """Return the gRPC status name for the end of a stream."""
    return "OK" if end.status == "success" else STATUSES[Code(end.status)].grpc

"""Helpers for custom gRPC servicers: error statuses and metadata."""

from collections.abc import AsyncIterator, Callable, Mapping
from functools import wraps
from typing import Any

from inferstream.errors import MissingExtra
from inferstream.errors import ModelError as MLServerError

from .telemetry import logger

try:
    import grpc
except ModuleNotFoundError as missing:
    raise MissingExtra("mlserver.grpc.utils", "grpc", missing) from None

STATUS_CODE_MAPPING = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    404: grpc.StatusCode.NOT_FOUND,
    422: grpc.StatusCode.FAILED_PRECONDITION,
    500: grpc.StatusCode.INTERNAL,
}


def to_headers(context: Any) -> dict[str, str]:
    """Return the metadata of a call by name."""
    metadata = (*(context.invocation_metadata() or ()), *(context.trailing_metadata() or ()))
    return dict(metadata)


def to_metadata(headers: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Convert headers to gRPC metadata."""
    return tuple((key.lower(), value) for key, value in headers.items())


def handle_mlserver_error(f: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a unary RPC so that it aborts with a status that matches its error.

    An MLServerError is mapped to a gRPC status, and any other error to INTERNAL.
    """

    @wraps(f)
    async def rpc(self: Any, request: Any, context: Any) -> Any:
        try:
            return await f(self, request, context)
        except Exception as error:
            await context.abort(*_to_status(error))

    return rpc


def handle_mlserver_stream_error(f: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a streaming RPC. Errors are mapped to the same statuses as in `handle_mlserver_error`."""

    @wraps(f)
    async def rpc(self: Any, requests: Any, context: Any) -> AsyncIterator[Any]:
        try:
            async for response in f(self, requests, context):
                yield response
        except Exception as error:
            await context.abort(*_to_status(error))

    return rpc


def _to_status(error: Exception) -> tuple[grpc.StatusCode, str]:
    if isinstance(error, MLServerError):
        return STATUS_CODE_MAPPING.get(error.status_code, grpc.StatusCode.UNKNOWN), error.message
    logger.error("RPC failed", exc_info=error)
    return grpc.StatusCode.INTERNAL, "The call failed."

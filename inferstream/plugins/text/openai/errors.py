"""Error responses in the OpenAI format."""

from typing import Any

from inferstream.errors import Code, InferstreamError, InvalidRequest, ModelNotFound

from ..context_length import EXCEEDED, read_overflow
from .states import UnopenedState

TYPES = {
    Code.INVALID: "invalid_request_error",
    Code.TOO_LARGE: "invalid_request_error",
    Code.UNSUPPORTED_ENCODING: "invalid_request_error",
    Code.NOT_FOUND: "invalid_request_error",
    Code.UNSUPPORTED: "invalid_request_error",
    Code.UNAUTHENTICATED: "authentication_error",
    Code.PERMISSION_DENIED: "permission_error",
    Code.OVERLOADED: "rate_limit_error",
    Code.LIMIT_EXCEEDED: "rate_limit_error",
}
"""OpenAI error types. All other codes are `server_error`."""

CODES = {
    Code.OVERLOADED: "rate_limit_exceeded",
    Code.LIMIT_EXCEEDED: "rate_limit_exceeded",
    Code.DEADLINE_EXCEEDED: "timeout",
    Code.TOO_LARGE: "request_too_large",
}


def error_object(error: InferstreamError) -> dict[str, Any]:
    """Return the error object of a failed request or stream."""
    code = "model_not_found" if isinstance(error, ModelNotFound) else CODES.get(error.code)
    if isinstance(error, UnopenedState):
        code = "previous_response_not_found"
    elif read_overflow(error):
        code = EXCEEDED
    param = "model" if isinstance(error, ModelNotFound) else _field(error)
    kind = TYPES.get(error.code, "server_error")
    return {"error": {"message": error.message, "type": kind, "param": param, "code": code}}


def _field(error: InferstreamError) -> str | None:
    """Return the invalid field of the request, if the error names it."""
    if not isinstance(error, InvalidRequest) or not error.detail:
        return None
    places = error.detail[0].get("loc")
    return str(places[-1]) if isinstance(places, list) and places else None

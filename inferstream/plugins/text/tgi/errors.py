"""Error responses that both TGI clients and FastAPI clients can read."""

from typing import Any

from inferstream.errors import Code, InferstreamError, InvalidRequest, own_status
from inferstream.ext.http import status_of

from ..context_length import read_overflow

STATUSES = {Code.INVALID: 422, Code.UNSUPPORTED: 422, Code.INTERNAL: 424}
"""HTTP statuses of error codes for which TGI differs from the server."""

TYPES = {
    Code.INVALID: "validation",
    Code.UNSUPPORTED: "validation",
    Code.NOT_FOUND: "validation",
    Code.TOO_LARGE: "validation",
    Code.UNSUPPORTED_ENCODING: "validation",
    Code.UNAUTHENTICATED: "validation",
    Code.PERMISSION_DENIED: "validation",
    Code.OVERLOADED: "overloaded",
    Code.LIMIT_EXCEEDED: "overloaded",
    Code.NOT_READY: "unavailable",
    Code.DRAINING: "unavailable",
}
"""TGI error types. All other codes are `generation`."""


def error_status(error: InferstreamError) -> int:
    """Return the HTTP status: the one set by the model, else the TGI status, else the server's."""
    own = own_status(error)
    return own or STATUSES.get(error.code) or status_of(error).http


def error_object(error: InferstreamError) -> dict[str, Any]:
    """Return the body of an error response. `detail` lists the invalid fields as FastAPI does."""
    message = error.message
    if overflow := read_overflow(error):
        tokens, limit = overflow
        message = (
            f"Input validation error: `inputs` must have less than {limit} input tokens. Given: {tokens}"
        )
    document: dict[str, Any] = {"error": message, "error_type": TYPES.get(error.code, "generation")}
    if error.code is Code.INVALID:
        document["detail"] = _detail(error)
    return document


def _detail(error: InferstreamError) -> list[dict[str, object]]:
    faults = error.detail if isinstance(error, InvalidRequest) else None
    if not faults:
        return [{"type": "value_error", "loc": ["body"], "msg": error.message}]
    return [
        {
            "type": fault.get("type", "value_error"),
            "loc": ["body", *_places(fault.get("loc"))],
            "msg": fault.get("msg", error.message),
        }
        for fault in faults
    ]


def _places(loc: object) -> list[object]:
    """Split the location of a field into names."""
    if not isinstance(loc, (list, tuple)):
        return []
    return [name for place in loc for name in (place.split(".") if isinstance(place, str) else [place])]

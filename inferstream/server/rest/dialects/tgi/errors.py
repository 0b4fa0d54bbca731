"""Errors as clients of TGI and of FastAPI read them: one body for both."""

from typing import Any

from inferstream.ext.http import status_of

from .....errors import Code, InferstreamError, InvalidRequest, own_status
from .....text.context_length import read_overflow

STATUSES = {Code.INVALID: 422, Code.UNSUPPORTED: 422, Code.INTERNAL: 424}
"""Statuses that TGI has a number of its own for."""

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
"""Types of errors; all others are `generation`."""


def error_status(error: InferstreamError) -> int:
    """The HTTP status: that of the model's code, else TGI's, else the server's."""
    own = own_status(error)
    return own or STATUSES.get(error.code) or status_of(error).http


def error_object(error: InferstreamError) -> dict[str, Any]:
    """The body of a failed request. `detail` names the fields of a wrong one, as FastAPI does."""
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
    """The way to a field, name by name."""
    if not isinstance(loc, (list, tuple)):
        return []
    return [name for place in loc for name in (place.split(".") if isinstance(place, str) else [place])]

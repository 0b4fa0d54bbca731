"""Failures of calls, from what a server says over each transport."""

import time
from email.utils import parsedate_to_datetime

import orjson

from ..errors import CallFailed, CallTimedOut

RETRYABLE = frozenset((429, 502, 503, 504))
"""HTTP statuses of calls that the server, or a proxy before it, has not started. A retry cannot change others."""

IN_BAND = {
    "invalid": 400,
    "too_large": 413,
    "not_found": 404,
    "permission_denied": 403,
    "not_ready": 503,
    "overloaded": 429,
    "limit_exceeded": 429,
    "unauthenticated": 401,
    "deadline_exceeded": 504,
    "worker_lost": 503,
    "draining": 503,
    "cancelled": 499,
    "unsupported": 501,
}
"""HTTP statuses of the codes of errors after the beginning of a stream; 500 for others."""

STATUSES = {
    "CANCELLED": 499,
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "OUT_OF_RANGE": 400,
    "DEADLINE_EXCEEDED": 504,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "ABORTED": 409,
    "PERMISSION_DENIED": 403,
    "UNAUTHENTICATED": 401,
    "RESOURCE_EXHAUSTED": 429,
    "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503,
}
"""The HTTP status that belongs to each status of gRPC; 500 for others."""


def refused(
    message: str,
    status: int,
    status_name: str | None = None,
    retryable: bool = False,
    retry_after: float | None = None,
) -> CallFailed:
    """The failure of a call to which the server has given a status."""
    kind = CallTimedOut if status == 504 else CallFailed
    return kind(message, retryable=retryable, retry_after=retry_after, status=status, status_name=status_name)


def of_http(status: int, body: bytes, reason: str, retry_after: str | None) -> CallFailed:
    """The failure in an HTTP response."""
    return refused(
        message_in(body) or reason, status, retryable=status in RETRYABLE, retry_after=seconds_of(retry_after)
    )


def in_band(body: bytes) -> CallFailed:
    """The failure in an event or a message of a stream that has begun."""
    try:
        code = orjson.loads(body).get("code")
    except (orjson.JSONDecodeError, AttributeError):
        code = None
    return refused(message_in(body), IN_BAND.get(code, 500))


def no_response(error: Exception) -> CallFailed:
    """The failure of a call whose response is not one of the protocol."""
    return CallFailed(f"The server's answer is not a V2 response: {error}")


def too_late(seconds: float) -> CallTimedOut:
    """The failure of a call whose time limit has passed here."""
    return CallTimedOut(f"no answer within {seconds:g} s", status=504, status_name="")


def message_in(body: bytes) -> str:
    """The error in a body, in our form or in MLServer's and FastAPI's, else the body itself."""
    text = body[:500].decode(errors="replace")
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return text
    if isinstance(document, dict):
        error = document.get("error") or document.get("detail")
        if error:
            return error if isinstance(error, str) else orjson.dumps(error).decode()
    return text


def seconds_of(retry_after: str | None) -> float | None:
    """Seconds, from either form of HTTP's header `Retry-After`."""
    if retry_after is None:
        return None
    try:
        return max(float(retry_after), 0.0)
    except ValueError:
        pass
    try:
        return max(parsedate_to_datetime(retry_after).timestamp() - time.time(), 0.0)
    except ValueError:
        return None

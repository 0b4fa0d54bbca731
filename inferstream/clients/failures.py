"""Failures of calls, from what a server says over each transport."""

import time
from email.utils import parsedate_to_datetime

import orjson

from ..errors import CallFailed, CallTimedOut
from ..statuses import HTTP_OF_CODE

RETRYABLE = frozenset((429, 502, 503, 504))
"""HTTP statuses of calls that the server, or a proxy before it, has not started. A retry cannot change others."""


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
    return refused(message_in(body), HTTP_OF_CODE.get(code, 500))


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

"""Converts the error responses of each transport to CallFailed."""

import socket
import ssl
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime

import orjson

from ..errors import HINT, CallFailed, CallTimedOut, ConnectionFailed
from ..statuses import HTTP_OF_CODE

RETRYABLE = frozenset((429, 502, 503, 504))
"""HTTP statuses of calls that the server, or a proxy in front of it, did not start.

Only these can be retried.
"""


def rejection(
    message: str,
    status: int,
    status_name: str | None = None,
    retryable: bool = False,
    retry_after: float | None = None,
) -> CallFailed:
    """Return the error for a call that the server rejected with a status."""
    kind = CallTimedOut if status == 504 else CallFailed
    return kind(message, retryable=retryable, retry_after=retry_after, status=status, status_name=status_name)


def http_error(status: int, body: bytes, reason: str, retry_after: str | None) -> CallFailed:
    """Return the error in an HTTP response."""
    return rejection(
        parse_message(body) or reason,
        status,
        retryable=status in RETRYABLE,
        retry_after=parse_retry_after(retry_after),
    )


def parse_stream_error(body: bytes) -> CallFailed:
    """Return the error in an event or a message of a stream that has started."""
    try:
        code = orjson.loads(body).get("code")
    except (orjson.JSONDecodeError, AttributeError):
        code = None
    return rejection(parse_message(body), HTTP_OF_CODE.get(code, 500))


def unreachable(address: str, error: BaseException) -> ConnectionFailed:
    """Return the error for a failure to connect to the server at `address`."""
    causes = [*_causes(error)]
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        reason = "its host name is unknown"
    elif any(isinstance(cause, ConnectionRefusedError) for cause in causes):
        reason = "the connection was refused"
    elif (tls := next((each for each in causes if isinstance(each, ssl.SSLError)), None)) is not None:
        reason = f"TLS failed: {getattr(tls, 'verify_message', '') or str(tls.reason or tls).lower()}"
    elif any(isinstance(cause, TimeoutError) for cause in causes):
        reason = "no connection in time"
    else:
        reason = str(error) or type(error).__name__
    return build_missing_server_error(address, reason)


def build_missing_server_error(address: str, reason: str, status_name: str | None = None) -> ConnectionFailed:
    """Return the error for an address without a server, with the next step."""
    step = "start it with `server start`, or name the address of a running server"
    message = f"no server at {address}: {reason}{HINT}{step}"
    return ConnectionFailed(message, retryable=True, unreachable=True, status_name=status_name)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception, its causes and contexts, and the exceptions of groups among them."""
    yield error
    for inner in (error.__cause__, error.__context__, *getattr(error, "exceptions", ())):
        if inner is not None:
            yield from _causes(inner)


def build_invalid_response_error(error: Exception) -> CallFailed:
    """Return the error for a response that does not conform to the protocol."""
    return CallFailed(f"The server's answer is not a V2 response: {error}")


def build_timeout_error(seconds: float) -> CallTimedOut:
    """Return the error for a call that exceeded its time limit on the client side."""
    return CallTimedOut(f"no answer within {seconds:g} s", status=504, status_name="")


def parse_message(body: bytes) -> str:
    """Return the error message in a body, or the body itself.

    Recognizes the formats of inferstream, MLServer and FastAPI.
    """
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


def parse_retry_after(retry_after: str | None) -> float | None:
    """Return the seconds in a `Retry-After` header, which holds either a number or a date (RFC 9110)."""
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

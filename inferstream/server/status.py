"""HTTP and gRPC statuses of errors, including the variants that clients of other servers expect."""

from ..errors import InferstreamError, Overloaded, Refused, own_status
from ..settings.server import StatusProfile
from ..statuses import TABLE, Code, Statuses
from .headers import select_sendable

Profile = StatusProfile

MAX_SECONDS = 60
"""The maximum `Retry-After`, in seconds. OpenAI SDKs ignore longer values and retry immediately."""

PROFILES: dict[Profile, dict[Code, Statuses]] = {
    "default": {},
    "mlserver": {
        Code.INVALID: Statuses(422, "INVALID_ARGUMENT"),
        Code.NOT_READY: Statuses(400, "INVALID_ARGUMENT"),
    },
    "triton": {
        Code.OVERLOADED: Statuses(503, "UNAVAILABLE"),
        Code.DEADLINE_EXCEEDED: Statuses(503, "UNAVAILABLE"),
    },
}
"""Differences from `TABLE`, for clients that depend on the status codes of another server."""


def status_of(error: InferstreamError, profile: Profile = "default") -> Statuses:
    """Return the HTTP and gRPC status of an error."""
    status = PROFILES[profile].get(error.code) or TABLE[error.code]
    own = own_status(error)
    return status if own is None else Statuses(own, status.grpc)


def retry_after(error: BaseException) -> int | None:
    """Return the number of seconds after which a retry may succeed, or None if retrying does not help."""
    if isinstance(error, Overloaded | Refused) and error.retry_after is not None:
        return min(error.retry_after, MAX_SECONDS)
    passes = (Code.NOT_READY, Code.WORKER_LOST, Code.OUT_OF_MEMORY, Code.DRAINING)
    return 1 if isinstance(error, InferstreamError) and error.code in passes else None


def http_headers(error: InferstreamError) -> list[tuple[bytes, bytes]]:
    headers = select_sendable(error.headers.items()) if isinstance(error, Refused) else []
    seconds = retry_after(error)
    if seconds is not None:
        return [*headers, (b"retry-after", b"%d" % seconds)]
    if error.code is Code.UNAUTHENTICATED and not headers:
        return [(b"www-authenticate", b"Bearer")]  # RFC 9110, section 15.5.2: a 401 must have a challenge
    if error.code is Code.UNSUPPORTED_ENCODING:
        return [(b"accept-encoding", b"gzip, deflate")]
    return headers

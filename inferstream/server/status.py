"""The status of an error on each transport, in the words of the server that clients expect."""

from ..errors import InferstreamError, Overloaded, Refused, own_status
from ..settings.server import StatusProfile
from ..statuses import TABLE, Code, Statuses
from .headers import sendable

Profile = StatusProfile

MOST_SECONDS = 60
"""The longest time until a retry. OpenAI SDKs ignore a longer one and try again at once."""

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
"""Differences from `TABLE`, for clients that compare with the codes of another server."""


def status_of(error: InferstreamError, profile: Profile = "default") -> Statuses:
    """The HTTP and gRPC status of an error."""
    status = PROFILES[profile].get(error.code) or TABLE[error.code]
    own = own_status(error)
    return status if own is None else Statuses(own, status.grpc)


def retry_after(error: BaseException) -> int | None:
    """Seconds after which a retry may succeed; None for an error that a retry does not change."""
    if isinstance(error, Overloaded | Refused) and error.retry_after is not None:
        return min(error.retry_after, MOST_SECONDS)
    passes = (Code.NOT_READY, Code.WORKER_LOST, Code.OUT_OF_MEMORY, Code.DRAINING)
    return 1 if isinstance(error, InferstreamError) and error.code in passes else None


def http_headers(error: InferstreamError) -> list[tuple[bytes, bytes]]:
    headers = sendable(error.headers.items()) if isinstance(error, Refused) else []
    seconds = retry_after(error)
    if seconds is not None:
        return [*headers, (b"retry-after", b"%d" % seconds)]
    if error.code is Code.UNAUTHENTICATED and not headers:
        return [(b"www-authenticate", b"Bearer")]  # RFC 9110, section 15.5.2: a 401 has to have a challenge
    if error.code is Code.UNSUPPORTED_ENCODING:
        return [(b"accept-encoding", b"gzip, deflate")]
    return headers

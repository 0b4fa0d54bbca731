"""Statuses of failed calls: those of gRPC, and their equivalents for errors of HTTP and HTTP/2.

https://github.com/grpc/grpc/blob/master/doc/statuscodes.md and http-grpc-status-mapping.md.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final
from urllib.parse import unquote


class RpcStatus(IntEnum):
    """A status of gRPC."""

    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class RpcError(Exception):
    """A call ended with a status other than OK."""

    def __init__(self, code: RpcStatus, reason: str) -> None:
        super().__init__(f"{code.name}: {reason}")
        self.code, self.reason = code, reason


HTTP_STATUSES: Final[Mapping[str, RpcStatus]] = {
    "400": RpcStatus.INTERNAL,
    "401": RpcStatus.UNAUTHENTICATED,
    "403": RpcStatus.PERMISSION_DENIED,
    "404": RpcStatus.UNIMPLEMENTED,
    "429": RpcStatus.UNAVAILABLE,
    "502": RpcStatus.UNAVAILABLE,
    "503": RpcStatus.UNAVAILABLE,
    "504": RpcStatus.UNAVAILABLE,
}

REFUSED_STREAM, CANCEL, ENHANCE_YOUR_CALM, INADEQUATE_SECURITY = 0x7, 0x8, 0xB, 0xC

RESETS: Final[Mapping[int, RpcStatus]] = {
    REFUSED_STREAM: RpcStatus.UNAVAILABLE,
    CANCEL: RpcStatus.CANCELLED,
    ENHANCE_YOUR_CALM: RpcStatus.RESOURCE_EXHAUSTED,
    INADEQUATE_SECURITY: RpcStatus.PERMISSION_DENIED,
}
"""Statuses for error codes of RST_STREAM frames. All others are INTERNAL."""


def read_trailers(fields: Mapping[str, str]) -> RpcError | None:
    """Return the failure that trailers report, or None for the status OK."""
    status = fields.get("grpc-status", "")
    if status == "0":
        return None
    reason = unquote(fields.get("grpc-message", ""), errors="replace")
    if not status:
        return RpcError(RpcStatus.UNKNOWN, "the peer sent no grpc-status")
    if not status.isascii() or not status.isdigit() or not 1 <= int(status[:4]) <= len(RpcStatus):
        return RpcError(RpcStatus.UNKNOWN, reason)
    return RpcError(RpcStatus(int(status)), reason)


def read_headers(fields: Mapping[str, str]) -> RpcError | None:
    """Return the failure of a response that is not a gRPC response."""
    status = fields.get(":status", "")
    if status != "200":
        return RpcError(
            HTTP_STATUSES.get(status, RpcStatus.UNKNOWN), f"the peer responds with HTTP status {status}"
        )
    if not fields.get("content-type", "").startswith("application/grpc"):
        return RpcError(RpcStatus.UNKNOWN, "the peer does not speak gRPC")
    return None


def read_reset(code: int) -> RpcError:
    """Return the failure for an RST_STREAM frame."""
    return RpcError(RESETS.get(code, RpcStatus.INTERNAL), f"the peer reset the call with code {code}")

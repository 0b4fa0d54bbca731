"""How calls fail: statuses of gRPC, and those for errors of HTTP and HTTP/2.

https://github.com/grpc/grpc/blob/master/doc/statuscodes.md and http-grpc-status-mapping.md.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final
from urllib.parse import unquote


class Code(IntEnum):
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


class CallFailed(Exception):
    """A call ended with a status other than OK."""

    def __init__(self, code: Code, reason: str) -> None:
        super().__init__(f"{code.name}: {reason}")
        self.code, self.reason = code, reason


HTTP_STATUSES: Final[Mapping[str, Code]] = {
    "400": Code.INTERNAL,
    "401": Code.UNAUTHENTICATED,
    "403": Code.PERMISSION_DENIED,
    "404": Code.UNIMPLEMENTED,
    "429": Code.UNAVAILABLE,
    "502": Code.UNAVAILABLE,
    "503": Code.UNAVAILABLE,
    "504": Code.UNAVAILABLE,
}

REFUSED_STREAM, CANCEL, ENHANCE_YOUR_CALM, INADEQUATE_SECURITY = 0x7, 0x8, 0xB, 0xC

RESETS: Final[Mapping[int, Code]] = {
    REFUSED_STREAM: Code.UNAVAILABLE,
    CANCEL: Code.CANCELLED,
    ENHANCE_YOUR_CALM: Code.RESOURCE_EXHAUSTED,
    INADEQUATE_SECURITY: Code.PERMISSION_DENIED,
}
"""Statuses for error codes of RST_STREAM frames. All others are INTERNAL."""


def read_trailers(fields: Mapping[str, str]) -> CallFailed | None:
    """Return the failure that trailers report, or None for the status OK."""
    status = fields.get("grpc-status", "")
    if status == "0":
        return None
    reason = unquote(fields.get("grpc-message", ""), errors="replace")
    if not status:
        return CallFailed(Code.UNKNOWN, "the peer sent no grpc-status")
    if not status.isascii() or not status.isdigit() or not 1 <= int(status[:4]) <= len(Code):
        return CallFailed(Code.UNKNOWN, reason)
    return CallFailed(Code(int(status)), reason)


def read_headers(fields: Mapping[str, str]) -> CallFailed | None:
    """Return the failure of a response that is not a gRPC response."""
    status = fields.get(":status", "")
    if status != "200":
        return CallFailed(
            HTTP_STATUSES.get(status, Code.UNKNOWN), f"the peer responds with HTTP status {status}"
        )
    if not fields.get("content-type", "").startswith("application/grpc"):
        return CallFailed(Code.UNKNOWN, "the peer does not speak gRPC")
    return None


def read_reset(code: int) -> CallFailed:
    """Return the failure for an RST_STREAM frame."""
    return CallFailed(RESETS.get(code, Code.INTERNAL), f"the peer reset the call with code {code}")

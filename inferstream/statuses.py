"""HTTP and gRPC statuses for each kind of failure."""

from enum import Enum
from typing import NamedTuple


class Code(Enum):
    """Kinds of failure. Each transport maps a code to its own status."""

    INVALID = "invalid"
    TOO_LARGE = "too_large"
    UNSUPPORTED_ENCODING = "unsupported_encoding"
    NOT_FOUND = "not_found"
    ALREADY_EXISTS = "already_exists"
    UNAUTHENTICATED = "unauthenticated"
    PERMISSION_DENIED = "permission_denied"
    NOT_READY = "not_ready"
    OVERLOADED = "overloaded"
    LIMIT_EXCEEDED = "limit_exceeded"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    WORKER_LOST = "worker_lost"
    OUT_OF_MEMORY = "out_of_memory"
    DRAINING = "draining"
    CANCELLED = "cancelled"
    UNSUPPORTED = "unsupported"
    INTERNAL = "internal"


class Statuses(NamedTuple):
    """The HTTP and gRPC status of one code."""

    http: int
    grpc: str


TABLE: dict[Code, Statuses] = {
    Code.INVALID: Statuses(400, "INVALID_ARGUMENT"),
    Code.TOO_LARGE: Statuses(413, "RESOURCE_EXHAUSTED"),
    Code.UNSUPPORTED_ENCODING: Statuses(415, "INVALID_ARGUMENT"),
    Code.NOT_FOUND: Statuses(404, "NOT_FOUND"),
    Code.ALREADY_EXISTS: Statuses(400, "ALREADY_EXISTS"),
    Code.UNAUTHENTICATED: Statuses(401, "UNAUTHENTICATED"),
    Code.PERMISSION_DENIED: Statuses(403, "PERMISSION_DENIED"),
    Code.NOT_READY: Statuses(503, "UNAVAILABLE"),
    Code.OVERLOADED: Statuses(429, "RESOURCE_EXHAUSTED"),
    Code.LIMIT_EXCEEDED: Statuses(429, "RESOURCE_EXHAUSTED"),
    Code.DEADLINE_EXCEEDED: Statuses(504, "DEADLINE_EXCEEDED"),
    Code.WORKER_LOST: Statuses(503, "UNAVAILABLE"),
    Code.OUT_OF_MEMORY: Statuses(503, "UNAVAILABLE"),
    Code.DRAINING: Statuses(503, "UNAVAILABLE"),
    Code.CANCELLED: Statuses(499, "CANCELLED"),
    Code.UNSUPPORTED: Statuses(501, "UNIMPLEMENTED"),
    Code.INTERNAL: Statuses(500, "INTERNAL"),
}

CONFLICT = 409
"""The HTTP status of ALREADY_EXISTS in contexts that do not use the 400 of MLServer."""

HTTP_OF_CODE = {code.value: status.http for code, status in TABLE.items()}
"""HTTP statuses by the value of a `Code`, as it appears in stream events and messages."""

HTTP_OF_GRPC = {status.grpc: status.http for status in TABLE.values()} | {
    "INVALID_ARGUMENT": 400,  # shared by two codes, as is the next
    "RESOURCE_EXHAUSTED": 429,
    "ALREADY_EXISTS": CONFLICT,
    "FAILED_PRECONDITION": 400,
    "OUT_OF_RANGE": 400,
    "ABORTED": CONFLICT,
}
"""HTTP statuses by gRPC status, including statuses that only other servers send. Use 500 for any other."""

_CODES = {status.http: code for code, status in reversed(TABLE.items()) if code is not Code.CANCELLED} | {
    CONFLICT: Code.ALREADY_EXISTS
}
"""The first code of each HTTP status. A 499 that model code returns does not mean that it was cancelled."""


def find_code(status: int) -> Code:
    """Return the code for an HTTP status that model code chose."""
    return _CODES.get(status, Code.INVALID if status < 500 else Code.INTERNAL)

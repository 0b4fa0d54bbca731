"""Names of grpclib that BlazeRPC's users import, for programs in which it is not installed."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from typing import Any

from inferstream.errors import ModelError
from inferstream.ext.http import HTTP_OF_GRPC
from inferstream.functions.errors import ErrorMap


class Status(Enum):
    """The statuses of gRPC."""

    OK = 0
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


def http_of(status: Any) -> int:
    """The HTTP status of a status of gRPC."""
    return 200 if status.name == "OK" else HTTP_OF_GRPC.get(status.name, 500)


class GRPCError(ModelError):
    """An error with a status of gRPC. A client gets the message, and the nearest status that the server has."""

    def __init__(self, status: Status, message: str | None = None, details: Any = None) -> None:
        super().__init__(message or status.name, http_of(status))
        self.status = status
        self.details = details


@dataclass
class RecvRequest:
    """A call that has arrived, as `on_request` sees it."""

    metadata: Mapping[str, str]
    method_name: str
    peer: Any
    transport: str = "grpc"
    user_agent: str | None = None
    content_type: str = "application/grpc"
    deadline: Any = None
    method_func: Any = None


@dataclass
class SendTrailingMetadata:
    """The end of a call, as `on_response` sees it. `metadata` is that of the request."""

    metadata: Mapping[str, str]
    status: Any
    status_message: str | None
    method_name: str
    peer: Any
    seconds: float
    transport: str = "grpc"
    status_details: Any = None


def status_named(name: str) -> Any:
    """The status of the library that is installed, else ours."""
    return import_module("grpclib.const").Status[name]


def installed_error() -> type[Exception] | None:
    """grpclib's own class of errors, if the program has imported it."""
    library = sys.modules.get("grpclib.exceptions")
    installed: type[Exception] | None = getattr(library, "GRPCError", None)
    return None if installed is GRPCError else installed


class GrpcErrors(ErrorMap):
    """An app's map of exceptions, in which errors of an installed grpclib have their own status."""

    def __bool__(self) -> bool:
        return super().__bool__() or installed_error() is not None

    def translated(self, error: Exception) -> Exception:
        kind = installed_error()
        if kind is not None and isinstance(error, kind):
            status: Any = getattr(error, "status", Status.UNKNOWN)
            message = getattr(error, "message", None)
            return ModelError(message or status.name, http_of(status))
        return super().translated(error)

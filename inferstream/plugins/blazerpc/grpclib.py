"""Replacements for the grpclib names that BlazeRPC users import, if grpclib is not installed."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from inferstream import App
from inferstream.errors import ModelError
from inferstream.ext.http import HTTP_OF_GRPC


class Status(Enum):
    """gRPC status codes."""

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


def to_http_status(status: Any) -> int:
    """Return the HTTP status for a gRPC status."""
    return 200 if status.name == "OK" else HTTP_OF_GRPC.get(status.name, 500)


class GRPCError(ModelError):
    """An error with a gRPC status. Clients receive the message and the nearest supported status."""

    def __init__(self, status: Status, message: str | None = None, details: Any = None) -> None:
        super().__init__(message or status.name, to_http_status(status))
        self.status = status
        self.details = details


@dataclass
class RecvRequest:
    """A received call, as passed to `on_request`."""

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
    """The end of a call, as passed to `on_response`. `metadata` is the request metadata."""

    metadata: Mapping[str, str]
    status: Any
    status_message: str | None
    method_name: str
    peer: Any
    seconds: float
    transport: str = "grpc"
    status_details: Any = None


def find_status(name: str) -> Any:
    """Return the status with this name, from the installed library or the replacement."""
    from grpclib.const import Status as Installed  # Imported lazily: the import may resolve to this module.

    return Installed[name]


def map_installed_error(app: App) -> None:
    """Map the errors of grpclib to their statuses, if the library is installed."""
    from grpclib.exceptions import GRPCError as Installed  # Imported lazily, as above.

    if Installed is not GRPCError:
        app.errors.add_function(Installed, _translate)


def _translate(error: Any) -> ModelError:
    status = getattr(error, "status", Status.UNKNOWN)
    return ModelError(getattr(error, "message", None) or status.name, to_http_status(status))

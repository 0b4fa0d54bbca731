"""Names of grpclib that BlazeRPC's users import, for programs in which it is not installed."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from inferstream import App
from inferstream.errors import ModelError
from inferstream.ext.http import HTTP_OF_GRPC


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
    from grpclib.const import Status as Installed  # late: this module may be that one

    return Installed[name]


def map_installed_error(app: App) -> None:
    """Let errors of grpclib have their own status, if the library itself is installed."""
    from grpclib.exceptions import GRPCError as Installed  # late, as above

    if Installed is not GRPCError:
        app.errors.add_function(Installed, _translated)


def _translated(error: Any) -> ModelError:
    status = getattr(error, "status", Status.UNKNOWN)
    return ModelError(getattr(error, "message", None) or status.name, http_of(status))

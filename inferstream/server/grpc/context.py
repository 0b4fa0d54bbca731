"""The context of an RPC: metadata, deadline, caller, and the headers of the response."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Iterable
from typing import Protocol

from ...dataplane.access import Authority
from ...dataplane.admission import Admission
from ...dataplane.call import header_priority, header_timeout
from ...dataplane.caller import Caller
from ...errors import InferstreamError, InvalidRequest, ModelNotFound
from ...types import Headers, Parameters
from ..headers import ResponseHeaders
from .metadata import CallMetadata, Metadata

logger = logging.getLogger("inferstream.grpc")

MAX_METADATA_SIZE = 3072
"""Maximum bytes of model headers. With a status message, they stay below the 8 KiB that clients accept."""

PER_HEADER = 32
"""Overhead of a header in HTTP/2, in bytes, in addition to its name and value."""

_NAME = re.compile(r"(?!grpc-)[0-9a-z_.-]+(?<!-bin)")
_VALUE = re.compile(r"[ -~]*")


class RpcContext(Protocol):
    """The context that an engine passes to each RPC.

    `read`, `write` and `send_initial_metadata` raise ClientLeft if the client has disconnected.
    """

    @property
    def deadline(self) -> float | None:
        """The client deadline on the event loop clock in seconds, or None."""

    @property
    def peer(self) -> str:
        """The client address, such as `ipv4:127.0.0.1:50000`, `ipv6:[::1]:50000` or `unix:…`."""

    @property
    def identities(self) -> tuple[str, ...]:
        """The names in the verified client certificate."""

    @property
    def metadata(self) -> CallMetadata:
        """The metadata of the request. Raises InvalidRequest."""

    def read(self) -> Awaitable[bytes | None]:
        """Receive the next message, or None if the client has half-closed."""

    def write(self, message: bytes, /) -> Awaitable[None]:
        """Send a message. Waits while the client does not read."""

    def send_initial_metadata(self, metadata: Metadata, /) -> Awaitable[None]: ...

    def add_initial_metadata(self, metadata: Metadata, /) -> None:
        """Add initial metadata, which is sent no later than the first message or the status.

        It precedes the metadata of `send_initial_metadata`.
        """

    def add_trailing_metadata(self, metadata: Metadata, /) -> None: ...


def caller_of(context: RpcContext, access: Authority) -> Caller:
    """Return the caller of an RPC, with its priority and deadline. Raises InvalidRequest.

    The deadline is the earlier of the gRPC deadline and the timeout header.
    """
    metadata = context.metadata
    if (split := metadata.split) is None:
        split = metadata.split = access.split(metadata.pairs)
    priority = 0 if metadata.priority is None else header_priority(metadata.priority)
    deadline = context.deadline
    if metadata.timeout is not None:
        limit = asyncio.get_running_loop().time() + header_timeout(metadata.timeout)
        deadline = limit if deadline is None else min(deadline, limit)
    return Caller(Headers(split[0], None, context), "grpc", None, split[1], deadline, priority)


def name_missing_field(error: InferstreamError, field: str = "model_name") -> InferstreamError:
    """Replace a ModelNotFound for an empty name with an InvalidRequest that names the missing `field`."""
    if isinstance(error, ModelNotFound) and not error.name:
        return InvalidRequest(f'"{field}" is missing')
    return error


class TrailingHeaders(ResponseHeaders[str]):
    """Response headers from models, as trailing metadata."""

    def __init__(self) -> None:
        super().__init__(str, _select_sendable)

    def send(
        self, context: RpcContext, admission: Admission, id: str | None, parameters: Parameters | None
    ) -> None:
        """Add the headers of a response with this id and these parameters to the trailing metadata."""
        if admission.pipeline.marks is None and (parameters is None or parameters.headers is None):
            return
        if headers := self.collect(admission, id, parameters):
            context.add_trailing_metadata(tuple(headers))


def _select_sendable(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Drop headers that are illegal or exceed the limit, because they would break the whole response."""
    sendable = []
    left = MAX_METADATA_SIZE
    for name, value in headers:
        size = len(name) + len(value) + PER_HEADER
        if size <= left and _NAME.fullmatch(name) and _VALUE.fullmatch(value):
            sendable.append((name, value))
            left -= size
        else:
            logger.warning(
                "header %.100s of a model was not sent: invalid in gRPC, or the headers are too large", name
            )
    return sendable

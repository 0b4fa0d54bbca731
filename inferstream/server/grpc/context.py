"""The context of an RPC: the request's headers and deadline, and the headers of the response."""

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

LARGEST_METADATA = 3072
"""Bytes of a model's headers, so that they and a status message are less than the 8 KiB that clients accept."""

PER_HEADER = 32
"""Bytes that HTTP/2 adds to the name and value of each header."""

_NAME = re.compile(r"(?!grpc-)[0-9a-z_.-]+(?<!-bin)")
_VALUE = re.compile(r"[ -~]*")


class RpcContext(Protocol):
    """What an engine gives to each RPC. `read`, `write` and `send_initial_metadata` raise `ClientLeft`."""

    @property
    def deadline(self) -> float | None:
        """The client's deadline on the event loop's clock in seconds, or None."""

    @property
    def peer(self) -> str:
        """The client's address, such as `ipv4:127.0.0.1:50000`, `ipv6:[::1]:50000` or `unix:…`."""

    @property
    def identities(self) -> tuple[str, ...]:
        """The names in the client's verified certificate."""

    @property
    def metadata(self) -> CallMetadata:
        """What the client sends. Raises InvalidRequest."""

    def read(self) -> Awaitable[bytes | None]:
        """The next message, or None when the client has half-closed."""

    def write(self, message: bytes, /) -> Awaitable[None]:
        """Send a message, and wait while the client does not read."""

    def send_initial_metadata(self, metadata: Metadata, /) -> Awaitable[None]: ...

    def add_initial_metadata(self, metadata: Metadata, /) -> None:
        """Send these before those of `send_initial_metadata`, with the first message or with the end at the latest."""

    def add_trailing_metadata(self, metadata: Metadata, /) -> None: ...


def caller_of(context: RpcContext, access: Authority) -> Caller:
    """The client of an RPC, with its priority and the earlier of its two time limits. Raises InvalidRequest."""
    metadata = context.metadata
    if (split := metadata.split) is None:
        split = metadata.split = access.split(metadata.pairs)
    priority = 0 if metadata.priority is None else header_priority(metadata.priority)
    deadline = context.deadline
    if metadata.timeout is not None:
        limit = asyncio.get_running_loop().time() + header_timeout(metadata.timeout)
        deadline = limit if deadline is None else min(deadline, limit)
    return Caller(Headers(split[0], None, context), "grpc", None, split[1], deadline, priority)


def of_name(error: InferstreamError, field: str = "model_name") -> InferstreamError:
    """The error of a request to a model. No model has an empty name, and a client that sends one has set none."""
    if isinstance(error, ModelNotFound) and not error.name:
        return InvalidRequest(f'"{field}" is missing')
    return error


class TrailingHeaders(ResponseHeaders[str]):
    """Headers of responses as trailing metadata."""

    def __init__(self) -> None:
        super().__init__(str, _sendable)

    def send(
        self, context: RpcContext, admission: Admission, id: str | None, parameters: Parameters | None
    ) -> None:
        """Send the headers of a response with this id and these parameters as trailing metadata."""
        if admission.pipeline.marks is None and (parameters is None or parameters.headers is None):
            return
        if headers := self.of(admission, id, parameters):
            context.add_trailing_metadata(tuple(headers))


def _sendable(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The legal headers within the limit. With any other the client would lose the whole response."""
    sendable = []
    left = LARGEST_METADATA
    for name, value in headers:
        size = len(name) + len(value) + PER_HEADER
        if size <= left and _NAME.fullmatch(name) and _VALUE.fullmatch(value):
            sendable.append((name, value))
            left -= size
        else:
            logger.warning("a model's header %.100s is illegal in gRPC, or one too many: not sent", name)
    return sendable

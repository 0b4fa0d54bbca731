"""`Caller`: the client of a request, with its API, deadline and permissions."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from ..types import Headers

if TYPE_CHECKING:
    from weakref import ref

    from ..concurrency.outgoing import ByteCount
    from ..errors import InferstreamError

Name = TypeVar("Name", bytes, str, bytes | str)
"""The type of header names and values, which depends on the transport."""

Shown = tuple[tuple[bytes | str, bytes | str], ...]
"""Original headers of a request, which may contain credentials."""

SplitHeaders = tuple[Iterable[tuple[bytes | str, bytes | str]], Shown | None]
"""The headers that middleware and models may read, and the headers that may contain credentials.

Models may log or forward the first part. The second part is None if the server requires no credentials,
because then all headers are in the first part.
"""


DOORS: set[str] = set()
"""Dialects of transports without ports, such as message queues. No client waits for their responses."""


class Permissions(Protocol):
    """The permissions of an authenticated client."""

    @property
    def limits(self) -> object | None:
        """The limits of the client. If None, responses have no rate limit headers."""

    @property
    def use(self) -> "ByteCount | None":
        """The byte counter of the client. None before its first use."""

    def sees(self, model: str) -> bool:
        """Whether the client may see the model. `model` may be `name:version`."""


@dataclass(slots=True)
class Caller:
    """The client of a request, or of a stream or connection if all its requests share these values.

    A transport creates it before it reads the body. `headers` are decoded on first access, and also hold the
    client's address and certificate. `deadline` is in seconds on the event loop's clock. `priority` is 1
    (highest) to 9 (lowest), or 0 for the model's default. `pace` is the minimum interval between two
    responses of a stream in seconds. `task` is the task that opens the calls, or None for the current task at
    that time.
    """

    headers: Headers
    dialect: str
    task: asyncio.Task[object] | None = None
    shown: Shown | None = None
    """Headers that may contain credentials, which `headers` then lacks. None if `headers` is complete."""
    deadline: float | None = None
    priority: int = 0
    pace: float = 0.0
    principal: str | None = None
    """The name of the authenticated client, or None. Only the authority sets it."""
    picked: object = None
    """Claims of a trusted gateway about the request. Only the authority sets and reads them."""
    key: Permissions | None = None
    """The permissions, or None if the server requires no credentials. Only the authority sets them."""
    told: "ref[InferstreamError] | None" = None
    """The last error that was written to the audit log for this client. Only the authority sets it."""

    @property
    def peer(self) -> str:
        """The client's address in gRPC notation, or an empty string if the transport has none."""
        return self.headers.peer or ""

    @property
    def door(self) -> str:
        """The transport: `grpc`, `websocket`, `http`, or the dialect of a transport without a port."""
        return self.dialect if self.dialect in ("grpc", "websocket") or self.dialect in DOORS else "http"

    def until(self, deadline: float) -> "Caller":
        """Return a copy with another deadline, for one request of a connection."""
        return replace(self, deadline=deadline)

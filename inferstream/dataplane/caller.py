"""`Caller`: who makes a request, in which dialect and how urgently."""

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
"""The type of names and values of headers, as the transport has them."""

Shown = tuple[tuple[bytes | str, bytes | str], ...]
"""The headers of a request that may hold credentials, as they arrived."""

SplitHeaders = tuple[Iterable[tuple[bytes | str, bytes | str]], Shown | None]
"""The headers of a request for middleware and models, which may log them or send them elsewhere, and the others.

The second part is None if the server asks for no credentials, and all headers are public.
"""


DOORS: set[str] = set()
"""The dialects of doors beside the ports. No client waits for the responses to their calls."""


class Permissions(Protocol):
    """The permissions of an authenticated client."""

    @property
    def limits(self) -> object | None:
        """None if nothing limits it, and responses say nothing of limits."""

    @property
    def use(self) -> "ByteCount | None":
        """None before its first use."""

    def sees(self, model: str) -> bool:
        """Whether it may learn of the model, which may be `model:version`."""


@dataclass(slots=True)
class Caller:
    """The client of one request, or of one stream or connection where its requests have that in common.

    A transport makes it before it reads a body. `headers` decode when they are read, and know the client's address
    and certificate. `deadline` is a time on the event loop's clock, in seconds. `priority` is 1 (highest) to 9
    (lowest), and 0 for the model's default. `pace` is the least time in seconds between two responses of a stream.
    `task` opens the calls; None for the current task at that time.
    """

    headers: Headers
    dialect: str
    task: asyncio.Task[object] | None = None
    shown: Shown | None = None
    """Its headers that may hold credentials, which `headers` do not have then. None where they may have them."""
    deadline: float | None = None
    priority: int = 0
    pace: float = 0.0
    principal: str | None = None
    """The name of the client; None where nothing has proved one. Only the authority sets it."""
    picked: object = None
    """What a trusted gateway says of the request. Only the authority sets and reads it."""
    key: Permissions | None = None
    """What the client may do; None where the server asks for no credentials. Only the authority sets it."""
    told: "ref[InferstreamError] | None" = None
    """The last error of which the audit log has a line for this client. Only the authority sets it."""

    @property
    def peer(self) -> str:
        """The address of the client in gRPC's form; empty where the transport does not know it."""
        return self.headers.peer or ""

    @property
    def door(self) -> str:
        """The transport: `grpc`, `websocket`, `http`, or the name of a door beside the ports."""
        return self.dialect if self.dialect in ("grpc", "websocket") or self.dialect in DOORS else "http"

    def until(self, deadline: float) -> "Caller":
        """The same client with a deadline of its own, for one request of a connection."""
        return replace(self, deadline=deadline)

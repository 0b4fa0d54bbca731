"""What a WebSocket and the conversation on it need of each other, over a transport of ours or over ASGI."""

from collections.abc import Coroutine, Hashable, Sequence
from typing import Any, Protocol

from websockets.extensions.base import ServerExtensionFactory

from ..status import Profile


class Holdable(Protocol):
    """A connection that is not read from while anybody holds it."""

    def hold(self, reason: Hashable) -> None:
        """Read nothing more, for this reason, until it is released."""

    def release(self, reason: Hashable) -> None:
        """This reason not to read is gone."""


class Socket(Protocol):
    """Messages to one client."""

    @property
    def reading(self) -> Holdable: ...

    def send(self, message: bytes, text: bool) -> Coroutine[Any, Any, None]:
        """Send a message; waits its turn while the client does not read."""

    def put(self, message: bytes, text: bool) -> None:
        """Send a small message at once, whether or not the client reads."""

    def fail(self, code: int, reason: str) -> None:
        """End at once: the client is told why and not listened to any more."""

    def rest(self) -> None:
        """Nothing runs here any more."""


class SocketListener(Protocol):
    """What an open socket is for."""

    @property
    def busy(self) -> bool: ...

    def received(self, message: bytes, text: bool) -> None: ...

    def lost(self) -> None: ...


class SocketDoor(Protocol):
    """What decides whether a socket opens, and within which bounds."""

    profile: Profile
    max_message: int
    silence: float
    stall: float

    @property
    def extensions(self) -> Sequence[ServerExtensionFactory]: ...

    def open(self, socket: Socket, path: str, headers: list[tuple[bytes, bytes]]) -> SocketListener: ...

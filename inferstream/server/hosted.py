"""A server that another program or plug-in runs, without the parts that only the server itself uses."""

from collections.abc import Callable
from typing import Any, Protocol

from ..repository import ModelRepository
from ..settings import Settings
from .application import Application
from .server import Server


class HostedServer(Protocol):
    application: Application

    ports: dict[str, int]
    """The bound ports, by name: `REST`, `gRPC`."""

    async def run(self, started: Callable[[Any], None]) -> None:
        """Load the models, call `started`, and serve until `stop`. Raises InvalidSettings."""

    def stop(self) -> None:
        """Finish the calls in progress and return from `run`."""


def build_server(settings: Settings, repository: ModelRepository | None = None) -> HostedServer:
    """A server that runs once, on any event loop of any thread, and handles no signals. Raises InvalidSettings."""
    return Server(settings, repository)

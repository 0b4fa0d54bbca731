"""A server that another program or plug-in runs, without the parts that only the server itself uses."""

from collections.abc import Callable, Sequence
from typing import Any

from ..repository import InMemoryRepository, ModelRepository
from ..server.application import Application
from ..server.server import Server
from ..settings import ModelSettings, Settings
from .banner import show
from .serve import stopped_by_signals


class HostedServer:
    """Runs once, on any event loop of any thread."""

    def __init__(self, server: Server) -> None:
        self._server = server

    @property
    def application(self) -> Application:
        """The models: calls of them in process, loads and unloads."""
        return self._server.application

    @property
    def ports(self) -> dict[str, int]:
        """The bound ports, by name: `REST`, `gRPC`."""
        return self._server.ports

    async def run(self, started: Callable[[Any], None]) -> None:
        """Load the models, call `started`, and serve until `stop`. It handles no signals. Raises InvalidSettings."""
        await self._server.run(started)

    async def run_until_signal(self) -> None:
        """Load the models, print the addresses, and serve until `stop`, SIGINT or SIGTERM. Raises InvalidSettings."""
        with stopped_by_signals(self.stop):
            await self.run(show)

    def stop(self) -> None:
        """Finish the calls in progress and return from `run`."""
        self._server.stop()


def build_server(
    settings: Settings, models: ModelRepository | Sequence[ModelSettings] | None = None
) -> HostedServer:
    """A server of these models, by default those that the settings name. Raises InvalidSettings."""
    repository = InMemoryRepository(models) if isinstance(models, Sequence) else models
    return HostedServer(Server(settings, repository))

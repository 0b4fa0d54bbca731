"""A server run by another program or plug-in, without the parts that only the command line uses."""

from collections.abc import Callable, Sequence
from typing import Any

from ..repository import InMemoryRepository, ModelRepository
from ..server.application import Application
from ..server.server import Server
from ..settings import ModelSettings, Settings
from .banner import show
from .serve import stop_on_signals


class HostedServer:
    """A server that can be run once, on any event loop in any thread."""

    def __init__(self, server: Server) -> None:
        self._server = server

    @property
    def application(self) -> Application:
        """The application, which calls, loads and unloads models in process."""
        return self._server.application

    @property
    def ports(self) -> dict[str, int]:
        """The bound ports by name, such as `REST` and `gRPC`."""
        return self._server.ports

    async def run(self, started: Callable[[Any], None]) -> None:
        """Load the models, call `started`, and serve until `stop` is called.

        Does not handle signals. Raises InvalidSettings.
        """
        await self._server.run(started)

    async def run_until_signal(self) -> None:
        """Load the models, print the addresses, and serve until `stop` is called or a signal arrives.

        The signals are SIGINT and SIGTERM. Raises InvalidSettings.
        """
        with stop_on_signals(self.stop):
            await self.run(show)

    def stop(self) -> None:
        """Finish the calls in progress, then return from `run`."""
        self._server.stop()


def build_server(
    settings: Settings, models: ModelRepository | Sequence[ModelSettings] | None = None
) -> HostedServer:
    """Build a server for these models, by default for the models in the settings. Raises InvalidSettings."""
    repository = InMemoryRepository(models) if isinstance(models, Sequence) else models
    return HostedServer(Server(settings, repository))

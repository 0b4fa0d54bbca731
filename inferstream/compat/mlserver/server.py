"""A server that a program starts."""

import signal
from collections.abc import Sequence

from inferstream import MLModel
from inferstream.repository import InMemoryRepository
from inferstream.server.server import Server
from inferstream.settings import ModelSettings, Settings

HANDLED_SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGQUIT]


class MLServer:
    """Serves until `stop`, or until the task that runs `start` is cancelled; signals are the program's own."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._server: Server | None = None

    async def start(self, models_settings: Sequence[ModelSettings] = ()) -> None:
        """Load the models given, or those of the repository if none are, and serve."""
        repository = InMemoryRepository(models_settings) if models_settings else None
        self._server = Server(self._settings, repository)
        await self._server.run(lambda _: None)

    async def add_custom_handlers(self, model: MLModel) -> MLModel:
        """The same: a model's own routes come with it."""
        return model

    async def reload_custom_handlers(self, old_model: MLModel, new_model: MLModel) -> MLModel:
        """The new one: a model's own routes come with it."""
        return new_model

    async def remove_custom_handlers(self, model: MLModel) -> MLModel:
        """The same: a model's own routes go with it."""
        return model

    async def stop(self, sig: int | None = None) -> None:
        """Finish what is in progress and return from `start`."""
        if self._server is not None:
            self._server.stop()

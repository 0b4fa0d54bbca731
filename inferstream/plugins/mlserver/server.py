"""The server as an object for embedding, and functions that load its repository and settings."""

import signal
from collections.abc import Sequence

from inferstream import MLModel, ModelSettings, Settings
from inferstream.ext.hosting import HostedServer, build_server, resolve_served
from inferstream.ext.runtimes import ModelRepository
from inferstream.ext.settings import load_settings as settings_of

HANDLED_SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGQUIT]


class MLServer:
    """Serves until `stop` is called or the task of `start` is cancelled. It does not handle signals."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._server: HostedServer | None = None

    async def start(self, models_settings: Sequence[ModelSettings] = ()) -> None:
        """Load and serve these models, or the models of the repository if none are passed."""
        self._server = build_server(self._settings, models_settings or None)
        await self._server.run(lambda _: None)

    async def add_custom_handlers(self, model: MLModel) -> MLModel:
        """Return the model unchanged. The server adds its custom routes itself."""
        return model

    async def reload_custom_handlers(self, old_model: MLModel, new_model: MLModel) -> MLModel:
        """Return the new model. The server replaces the custom routes itself."""
        return new_model

    async def remove_custom_handlers(self, model: MLModel) -> MLModel:
        """Return the model unchanged. The server removes its custom routes itself."""
        return model

    async def stop(self, sig: int | None = None) -> None:
        """Finish the calls in progress and make `start` return."""
        if self._server is not None:
            self._server.stop()


class ModelRepositoryFactory:
    """Creates model repositories."""

    @staticmethod
    def resolve_model_repository(settings: Settings) -> ModelRepository:
        """Create the repository for these settings. Raises InvalidSettings."""
        _, repository = resolve_served(settings, {})
        return repository


async def load_settings(folder: str | None = None) -> tuple[Settings, list[ModelSettings]]:
    """Load the settings of the server and of the models in `folder`. Raises InvalidSettings."""
    settings = Settings() if folder is None else settings_of(folder)
    if not settings.load_models_at_startup:
        return settings, []
    return settings, await ModelRepositoryFactory.resolve_model_repository(settings).list()

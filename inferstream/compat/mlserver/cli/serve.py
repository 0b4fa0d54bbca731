"""Settings of a folder."""

from inferstream import ModelSettings, Settings
from inferstream.server.server import repository_of
from inferstream.settings import SETTINGS_FILE
from inferstream.settings import load_settings as settings_of

DEFAULT_SETTINGS_FILENAME = SETTINGS_FILE


async def load_settings(folder: str | None = None) -> tuple[Settings, list[ModelSettings]]:
    """The settings of the server and of the models in `folder`. Raises InvalidSettings."""
    settings = Settings() if folder is None else settings_of(folder)
    models = await repository_of(settings).list() if settings.load_models_at_startup else []
    return settings, models


__all__ = ["DEFAULT_SETTINGS_FILENAME", "load_settings"]

"""Settings of one model."""

from pathlib import Path

from inferstream import ModelSettings
from inferstream.repository.folder import read_settings


def load_model_settings(model_settings_path: str) -> ModelSettings:
    """The settings in a file; name and artefacts are its folder's unless it says otherwise. Raises InvalidSettings."""
    path = Path(model_settings_path).absolute()
    return read_settings(path, path.resolve().parent)


__all__ = [
    "load_model_settings",
]

"""Settings of one model."""

from inferstream.settings import load_model_settings

__all__ = [
    "load_model_settings",
]

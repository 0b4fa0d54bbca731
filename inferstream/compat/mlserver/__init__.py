"""MLServer's public names."""

from typing import Any

from inferstream import ModelSettings, Settings

from .metrics.context import log, register
from .model import MLModel
from .version import __version__

__all__ = ["MLModel", "MLServer", "ModelSettings", "Settings", "__version__", "log", "register"]


def __getattr__(name: str) -> Any:
    if name == "MLServer":
        from .server import MLServer  # late: models need no web framework

        return MLServer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

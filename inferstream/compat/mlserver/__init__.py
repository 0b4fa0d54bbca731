"""MLServer's public names."""

import sys
from typing import Any

from inferstream import ModelSettings, Settings
from inferstream.compat.machinery import MachineryFinder

from .metrics.context import log, register
from .model import MLModel
from .version import __version__

if not any(isinstance(finder, MachineryFinder) for finder in sys.meta_path):
    sys.meta_path.append(MachineryFinder())

__all__ = ["MLModel", "MLServer", "ModelSettings", "Settings", "__version__", "log", "register"]


def __getattr__(name: str) -> Any:
    if name == "MLServer":
        from .server import MLServer  # late: models need no web framework

        return MLServer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""inferstream: a streaming model server for the V2 / Open Inference Protocol.

Heavy parts are imported on first use, so that `import inferstream` stays cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import codecs, errors, types
    from .context import RequestContext, request_context
    from .handlers import custom_handler
    from .model import Finished, MLModel, StepModel
    from .rows import RowErrors
    from .settings import ModelParameters, ModelSettings, Settings
    from .telemetry.custom import log, register

    __version__: str

__all__ = [
    "Finished",
    "MLModel",
    "ModelParameters",
    "ModelSettings",
    "RequestContext",
    "RowErrors",
    "Settings",
    "StepModel",
    "codecs",
    "custom_handler",
    "errors",
    "log",
    "register",
    "request_context",
    "types",
]

_HOMES = {
    "Finished": "model",
    "MLModel": "model",
    "ModelParameters": "settings",
    "ModelSettings": "settings",
    "RequestContext": "context",
    "RowErrors": "rows",
    "Settings": "settings",
    "StepModel": "model",
    "custom_handler": "handlers",
    "log": "telemetry.custom",
    "register": "telemetry.custom",
    "request_context": "context",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
    if name in ("codecs", "errors", "types"):
        return import_module(f".{name}", __name__)
    if name == "__version__":
        return import_module(".settings.server", __name__).own_version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

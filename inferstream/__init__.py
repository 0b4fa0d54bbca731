"""inferstream: a streaming model server for the V2 / Open Inference Protocol.

This package exports everything that you need to write a model. Each name is imported on first use, so
`import inferstream` is cheap.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import codecs, errors, testing, types
    from .cli.serve import serve
    from .clients.blocking import Client
    from .clients.client import AsyncClient
    from .codecs import (
        Base64Codec,
        DatetimeCodec,
        NumpyCodec,
        NumpyRequestCodec,
        StringCodec,
        StringRequestCodec,
        decode_args,
    )
    from .codecs import PandasCodec as PandasCodec
    from .codecs.values.arrays import TensorInput as TensorInput
    from .codecs.values.arrays import TensorOutput as TensorOutput
    from .context import RequestContext, request_context
    from .errors import CallFailed, CodecError, InferstreamError, ModelError, Refused
    from .functions.app import App
    from .functions.event import Event
    from .functions.injection import State
    from .functions.injection import depends as Depends  # noqa: N812  # checkers see a function
    from .functions.middleware import CallEnd, CallInfo
    from .handlers import custom_handler
    from .model import Finished, MLModel, StepModel
    from .rows import RowErrors
    from .server.application import Application
    from .settings import ModelParameters, ModelSettings, Settings
    from .telemetry.custom import log, register
    from .tokens import Token, Usage
    from .types import (
        Headers,
        InferenceRequest,
        InferenceResponse,
        MetadataTensor,
        Parameters,
        RequestInput,
        RequestOutput,
        ResponseOutput,
    )

    __version__: str

__all__ = [
    "App",
    "Application",
    "AsyncClient",
    "Base64Codec",
    "CallEnd",
    "CallFailed",
    "CallInfo",
    "Client",
    "CodecError",
    "DatetimeCodec",
    "Depends",
    "Event",
    "Finished",
    "Headers",
    "InferenceRequest",
    "InferenceResponse",
    "InferstreamError",
    "MLModel",
    "MetadataTensor",
    "ModelError",
    "ModelParameters",
    "ModelSettings",
    "NumpyCodec",
    "NumpyRequestCodec",
    "Parameters",
    "Refused",
    "RequestContext",
    "RequestInput",
    "RequestOutput",
    "ResponseOutput",
    "RowErrors",
    "Settings",
    "State",
    "StepModel",
    "StringCodec",
    "StringRequestCodec",
    "TensorInput",
    "TensorOutput",
    "Token",
    "Usage",
    "codecs",
    "custom_handler",
    "decode_args",
    "errors",
    "log",
    "register",
    "request_context",
    "serve",
    "testing",
    "types",
]
"""PandasCodec is omitted because pandas is optional: `from inferstream import *` must work without it."""

_NAMES = {
    "cli.serve": "serve",
    "clients.blocking": "Client",
    "clients.client": "AsyncClient",
    "codecs.values.arrays": "TensorInput TensorOutput",
    "context": "RequestContext request_context",
    "errors": "CallFailed CodecError InferstreamError ModelError Refused",
    "functions.app": "App",
    "functions.event": "Event",
    "functions.injection": "Depends State",
    "functions.middleware": "CallEnd CallInfo",
    "handlers": "custom_handler",
    "model": "Finished MLModel StepModel",
    "rows": "RowErrors",
    "server.application": "Application",
    "settings": "ModelParameters ModelSettings Settings",
    "telemetry.custom": "log register",
    "tokens": "Token Usage",
    "codecs": "Base64Codec DatetimeCodec NumpyCodec NumpyRequestCodec "
    "PandasCodec StringCodec StringRequestCodec decode_args",
    "types": "Headers InferenceRequest InferenceResponse MetadataTensor "
    "Parameters RequestInput RequestOutput ResponseOutput",
}
"""The exported names, grouped by the module that defines them."""

_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
    if name in ("codecs", "errors", "testing", "types"):
        return import_module(f".{name}", __name__)
    if name == "__version__":
        return import_module(".settings.server", __name__).own_version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class MovedModules:
    """An import finder for modules that have moved from this package to a plug-in.

    It runs after all other finders.
    """

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> Any:
        if not name.startswith(f"{__name__}."):
            return None
        return import_module(".compat.moved_modules", __name__).find_moved_module(name)


sys.meta_path.append(MovedModules)

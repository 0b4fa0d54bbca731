"""The models of an app, with the BlazeRPC registry interface."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import orjson

from inferstream import App
from inferstream.ext.rpc import TYPED_PREFIX
from inferstream.ext.values import DescribedFunction, parameter_of, pascal_case

from .adapting import adapt, get_hints
from .context import Context, Depends, build_factory
from .errors import ModelNotFoundError, ValidationError

SERVICE = "blazerpc.InferenceService"

DIMENSIONS = "dimensions"
"""The parameter that holds the dimensions of a declared array, as a JSON list of sizes, names and nulls."""

BATCH = "batch"
"""The name of the first dimension of arrays that can be batched."""


def rpc_path(model: str) -> str:
    """Return the path of a model's RPC."""
    return f"/{SERVICE}/{TYPED_PREFIX}{pascal_case(model)}"


@dataclass
class ModelInfo:
    """A function that is registered as a model."""

    name: str
    version: str
    func: Callable[..., object]
    streaming: bool = False
    input_types: dict[str, Any] = field(default_factory=dict)
    output_type: Any = None
    dep_params: dict[str, Any] = field(default_factory=dict)
    context_params: list[str] = field(default_factory=list)


class ModelRegistry:
    """The models of an app. Create one without an app for clients that do not import the server's app."""

    def __init__(self, app: App | None = None) -> None:
        self.app = App("registry", service=SERVICE, classic=True) if app is None else app
        self.models: dict[str, ModelInfo] = {}

    def register(
        self,
        name: str,
        version: str,
        func: Callable[..., object],
        streaming: bool = False,
        batching: dict[str, Any] | None = None,
    ) -> None:
        """Register a function as a model.

        `batching` holds the settings to use if its requests can be batched.

        Raises ValidationError for a function without parameters, or InvalidSettings.
        """
        if not inspect.signature(func).parameters:
            raise ValidationError(f"Model '{name}' must have at least one parameter", field=name)
        function = adapt(func, streaming, build_factory(rpc_path(name), self.app.state))
        settings = batching if batching and _can_batch(DescribedFunction(function, name)) else {}
        App.model(self.app, name, version=version, streaming=streaming or None, **settings)(function)
        self.models[f"{name}:{version}"] = _build_info(
            name, version, func, self.app[f"{name}@{version}"].streams
        )

    def get(self, name: str, version: str = "1") -> ModelInfo:
        """Return the model. Raises ModelNotFoundError."""
        info = self.get_or_none(name, version)
        if info is None:
            raise ModelNotFoundError(name, version)
        return info

    def get_or_none(self, name: str, version: str = "1") -> ModelInfo | None:
        """Return the model, or None."""
        return self.models.get(f"{name}:{version}")

    def list_models(self) -> list[ModelInfo]:
        """Return all models, in registration order."""
        return [*self.models.values()]


def _build_info(name: str, version: str, func: Callable[..., object], streaming: bool) -> ModelInfo:
    info = ModelInfo(name, version, func, streaming)
    hints = get_hints(func)
    info.output_type = hints.get("return")
    for parameter in inspect.signature(func).parameters.values():
        hint = hints.get(parameter.name, Any)
        if isinstance(parameter.default, Depends):
            info.dep_params[parameter.name] = parameter.default
        elif hint is Context:
            info.context_params.append(parameter.name)
        else:
            info.input_types[parameter.name] = hint
    return info


def _can_batch(function: DescribedFunction) -> bool:
    """Whether all arguments and the result are arrays with "batch" as the first dimension."""
    signature = function.signature()
    inputs, outputs = signature.inputs or (), signature.outputs or ()
    if signature.streams or function.arguments.injection or not inputs or len(outputs) != 1:
        return False
    dimensions = (parameter_of(tensor, DIMENSIONS) for tensor in (*inputs, *outputs))
    return all(text is not None and orjson.loads(text)[0] == BATCH for text in dimensions)

"""Creates model classes from functions."""

import functools
import inspect
from typing import Any, ClassVar

from ..concurrency.threads import Threads
from ..model import MLModel, StepModel
from ..signature import Signature
from ..types.forms import InputsForm
from .calls import build_predict, build_predict_stream
from .function import Function, ModelFunction
from .injection import replacements_var
from .results import ResultWriter
from .steps import StepFunction


class DescribedModel(MLModel):
    """The base of the classes that `model_class` creates.

    The hooks of an app run before its first model loads and after its last one unloads.
    """

    described: ClassVar[ModelFunction]
    signature: ClassVar[Signature]

    def writer(self) -> ResultWriter:
        """Return the writer of responses for values that the function returns."""
        return ResultWriter(self.described.results, self.name, self.version)

    async def load(self) -> bool:
        if self.described.app is not None:
            await self.described.app.hooks.enter()
        return True

    async def unload(self) -> bool:
        if self.described.app is not None:
            await self.described.app.hooks.leave()
        return True


class FunctionModel(DescribedModel):
    """A function model. Subclasses have `predict` or `predict_stream`."""

    described: ClassVar[Function]

    def form(self) -> InputsForm | None:
        """Return the form of requests that can be read without tensors, or None."""
        return self.described.arguments.form()

    @functools.cached_property
    def waiting(self) -> Threads:
        """Threads for blocking code that the model's coroutines await."""
        return Threads(self.name, self.settings.threads)


def model_class(function: ModelFunction) -> type[DescribedModel]:
    """Return the model class for a function. Raises InvalidSettings for a function that cannot be a model."""
    if replacements := replacements_var.get():
        function = function.replace(replacements)
    code = function.function
    members: dict[str, Any] = {
        "described": function,
        "signature": function.signature(),
        "__doc__": code.__doc__,
        "__module__": code.__module__,
        "__qualname__": getattr(code, "__qualname__", function.name),
    }
    if isinstance(function, StepFunction):
        return type(function.name, (DescribedModel, StepModel), members | function.methods())
    if isinstance(function, Function):
        streams = members["signature"].streams
        make = build_predict_stream if streams else build_predict
        members["predict_stream" if streams else "predict"] = make(function)
    return type(function.name, (FunctionModel,), members)


def resolve_model_class(implementation: Any, name: str) -> type[MLModel] | None:
    """Return the model class for an imported object: the class itself, or one generated from a function.

    Returns None for anything else. Raises InvalidSettings for a function that cannot be a model.
    """
    if inspect.isfunction(implementation):
        implementation = Function(implementation, name)
    if isinstance(implementation, ModelFunction):
        return model_class(implementation)
    is_model = isinstance(implementation, type) and issubclass(implementation, MLModel)
    return implementation if is_model else None

"""Makes classes of models of functions."""

import functools
import inspect
from typing import Any, ClassVar

from ..concurrency.threads import Threads
from ..model import MLModel, StepModel
from ..signature import Signature
from ..types.forms import InputsForm
from .calls import predict_method, stream_method
from .function import Function, ModelFunction
from .injection import replacements_var
from .results import ResultWriter
from .steps import StepFunction


class DescribedModel(MLModel):
    """The base of the classes that `model_class` makes. The hooks of an app run before the first of its models."""

    described: ClassVar[ModelFunction]
    signature: ClassVar[Signature]

    def writer(self) -> ResultWriter:
        """What makes responses of the values that the function returns."""
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
    """A function. A subclass has `predict` or `predict_stream`."""

    described: ClassVar[Function]

    def form(self) -> InputsForm | None:
        """The form of requests for the function that need no tensors; None if all need them."""
        return self.described.arguments.form()

    @functools.cached_property
    def waiting(self) -> Threads:
        """The threads for blocking code that coroutines of this model wait for."""
        return Threads(self.name, self.settings.threads)


def model_class(function: ModelFunction) -> type[DescribedModel]:
    """The class of models that run a function. Raises InvalidSettings for one that cannot be a model."""
    if replacements := replacements_var.get():
        function = function.replaced(replacements)
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
        make = stream_method if streams else predict_method
        members["predict_stream" if streams else "predict"] = make(function)
    return type(function.name, (FunctionModel,), members)


def implementation_of(implementation: Any, name: str) -> type[MLModel] | None:
    """The class of models that an import path means: a class itself, or that of a function; None for others.

    Raises InvalidSettings for a function that cannot be a model.
    """
    if inspect.isfunction(implementation):
        implementation = Function(implementation, name)
    if isinstance(implementation, ModelFunction):
        return model_class(implementation)
    is_model = isinstance(implementation, type) and issubclass(implementation, MLModel)
    return implementation if is_model else None

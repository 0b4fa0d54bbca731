"""Makes a class of models of a function."""

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from ..model import MLModel
from ..signature import Signature
from ..types import InferenceRequest
from ..types.values_request import InputsForm
from .awaited import Threads
from .awaited import read as read_apart
from .batches import Rows
from .dimensions import returned_sizes
from .function import Function
from .results import ResultWriter
from .steps import StepFunction
from .streams import stream_method

if TYPE_CHECKING:
    from .app import App

Method = Callable[..., Any]


class FunctionModel(MLModel):
    """The base of the classes that `model_class` makes. A subclass has `predict` or `predict_stream`."""

    described: ClassVar[Function]
    signature: ClassVar[Signature]

    def writer(self) -> ResultWriter:
        """What makes responses of the values that the function returns."""
        return self.described.results.writer(self.name, self.version)

    def form(self) -> InputsForm | None:
        """The form of requests for the function that need no tensors; None if all need them."""
        return self.described.arguments.form()

    @functools.cached_property
    def waiting(self) -> Threads:
        """The threads for blocking code that coroutines of this model wait for."""
        return Threads(self.name, self.settings.threads)


class AppModel(FunctionModel):
    """A function of an app with hooks, which run before the first and after the last of its models."""

    app: ClassVar["App"]

    async def load(self) -> bool:
        await self.app.hooks.enter()
        return True

    async def unload(self) -> bool:
        await self.app.hooks.leave()
        return True


def model_class(function: Function) -> type[FunctionModel]:
    """The class of models that call a function."""
    signature = function.signature()
    members: dict[str, Any] = {
        "described": function,
        "signature": signature,
        "__doc__": function.function.__doc__,
        "__module__": function.function.__module__,
        "__qualname__": getattr(function.function, "__qualname__", function.name),
    }
    if signature.streams:
        members["predict_stream"] = stream_method(function)
    else:
        members["predict"] = _predict(function)
    base: type[FunctionModel] = FunctionModel
    if function.app is not None:
        members["app"] = function.app
        if function.app.hooks:
            base = AppModel
    return type(function.name, (base,), members)


def _predict(function: Function) -> Method:
    call, arguments = function.function, function.arguments
    read, injection, is_async = arguments.read, arguments.injection, function.is_async
    predict: Method
    if function.awaits:

        async def predict(self: Any, payload: InferenceRequest) -> Any:
            given = await read_apart(self, arguments, payload)
            given |= await injection.filled(payload, self.waiting.run)
            return await (call(**given) if is_async else self.waiting.run(call, given))

    elif is_async and arguments.may_take_long:

        async def large(self: Any, payload: InferenceRequest) -> Any:
            given = await read_apart(self, arguments, payload)
            return await call(**given, **injection.fill(payload))

        def predict(self: Any, payload: InferenceRequest) -> Any:
            if arguments.takes_long(payload):
                return large(self, payload)
            return call(**read(payload), **injection.fill(payload)) if injection else call(**read(payload))

    elif injection:

        def predict(self: Any, payload: InferenceRequest) -> Any:
            return call(**read(payload), **injection.fill(payload))

    else:

        def predict(self: Any, payload: InferenceRequest) -> Any:
            return call(**read(payload))

    return functools.update_wrapper(_completed(predict, function), call)


Check = Callable[[Any, InferenceRequest, Any], None]
"""Raises an error for what a model returned to a request."""


def _completed(predict: Method, function: Function) -> Method:
    """`predict` with checks of what it returns, and with the app's errors for exceptions that the app maps."""
    checks = _checks_of(function)
    errors = None if function.app is None else function.app.errors
    if not checks and not errors:
        return predict

    def fail(error: Exception) -> NoReturn:
        mapped = errors.translated(error) if errors else error
        if mapped is error:
            raise error
        raise mapped from error

    def checked(model: Any, payload: InferenceRequest, returned: Any) -> Any:
        for check in checks:
            check(model, payload, returned)
        return returned

    async def awaited(self: Any, payload: InferenceRequest) -> Any:
        try:
            return checked(self, payload, await predict(self, payload))
        except Exception as error:
            fail(error)

    def called(self: Any, payload: InferenceRequest) -> Any:
        try:
            return checked(self, payload, predict(self, payload))
        except Exception as error:
            fail(error)

    return awaited if function.is_async or function.awaits else called


def _checks_of(function: Function) -> list[Check]:
    """The checks of what a function returns, beside its type."""
    checks: list[Check] = [Rows(function)] if function.batching.rows > 1 else []
    arguments, returned = function.arguments, returned_sizes(function)
    if returned is not None:
        checks.append(
            lambda model, payload, value: returned.check(model.name, arguments.sizes(payload), value)
        )
    return checks


def implementation_of(found: Any, name: str) -> type[MLModel] | None:
    """The class of models that an import path means: a class itself, or that of a function; None for others.

    Raises InvalidSettings for a function that cannot be a model.
    """
    if isinstance(found, Function):
        return model_class(found)
    if isinstance(found, StepFunction):
        return found.model_class()
    if inspect.isfunction(found):
        return model_class(Function(found, name))
    return found if isinstance(found, type) and issubclass(found, MLModel) else None

"""Makes a class of models of a function."""

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from ..errors import InferstreamError, InvalidOutput, ModelError
from ..model import MLModel
from ..rows import RowErrors
from ..signature import Signature
from ..types import InferenceRequest
from .awaited import awaiting_predict, awaiting_stream
from .function import Function
from .results import ResultWriter
from .steps import StepFunction
from .streams import LaterValues, OnlyItem, mapped, mapped_async, only

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
        members["predict_stream"] = _stream(function)
    else:
        members["predict"] = _predict(function)
    base: type[FunctionModel] = FunctionModel
    if function.app is not None:
        members["app"] = function.app
        if function.app.hooks:
            base = AppModel
    return type(function.name, (base,), members)


def _predict(function: Function) -> Method:
    call, read = function.function, function.arguments.read
    injection = function.arguments.injection
    if injection.awaits:
        predict: Method = awaiting_predict(function)
    elif injection:

        def predict(self: Any, payload: InferenceRequest) -> Any:
            return call(**read(payload), **injection.fill(payload))

    else:

        def predict(self: Any, payload: InferenceRequest) -> Any:
            return call(**read(payload))

    if function.batching.rows > 1:
        predict = _by_rows(predict, function)
    predict = _checked_sizes(predict, function)
    return functools.update_wrapper(_translating(predict, function), call)


def _stream(function: Function) -> Method:
    call, arguments = function.function, function.arguments
    injection, later = arguments.injection, arguments.stream
    if injection.awaits:
        return shaped(awaiting_stream(function), function)

    def start(self: Any, payloads: Any) -> Any:
        payload = payloads.take()
        given = arguments.read(payload)
        if injection:
            given |= injection.fill(payload)
        if later is not None:
            given[later.name] = LaterValues(arguments, payloads, given)
        return call(**given)

    return shaped(start, function)


def shaped(start: Method, function: Function) -> Method:
    """`start` as a `predict_stream` that returns an iterator, or is a generator where the function blocks."""
    errors = None if function.app is None else function.app.errors
    call = function.function
    if function.blocks:
        if function.yields and not errors:
            return functools.update_wrapper(start, call)

        def blocking(self: Any, payloads: Any) -> Iterator[Any]:
            items = start(self, payloads) if function.streams else only(start, self, payloads)
            yield from mapped(items, errors.translated) if errors else items

        method = functools.update_wrapper(blocking, call)
        del method.__wrapped__  # the server must see a generator, which `call` may not be
        return method

    def opening(self: Any, payloads: Any) -> Any:
        items = start(self, payloads) if function.streams else OnlyItem(start, self, payloads)
        return mapped_async(items, errors.translated) if errors else items

    return functools.update_wrapper(start if function.streams and not errors else opening, call)


def _translating(predict: Method, function: Function) -> Method:
    """Raise the app's error for an exception that the app maps."""
    errors = None if function.app is None else function.app.errors
    if not errors:
        return predict
    if function.is_async or function.arguments.injection.awaits:

        async def awaited(self: Any, payload: InferenceRequest) -> Any:
            try:
                return await predict(self, payload)
            except Exception as error:
                raise errors.translated(error) from error

        return awaited

    def called(self: Any, payload: InferenceRequest) -> Any:
        try:
            return predict(self, payload)
        except Exception as error:
            raise errors.translated(error) from error

    return called


def _by_rows(predict: Method, function: Function) -> Method:
    """Check that a function of lists returns as many items as it got, and split off the items that failed."""
    writer_of = function.results.writer

    def check(self: Any, payload: InferenceRequest, items: Any) -> Any:
        rows = {tensor.name: tensor.shape[0] if tensor.shape else 1 for tensor in payload.inputs}
        count = max(rows.values(), default=0)
        found = len(items) if hasattr(items, "__len__") else None
        if found != count:
            raise InvalidOutput(f"Model {self.name} returned {found} items for a batch of {count}.")
        if not isinstance(items, list):
            return items
        failed = {index: item for index, item in enumerate(items) if isinstance(item, Exception)}
        if not failed:
            return items
        good = next((item for item in items if not isinstance(item, Exception)), None)
        response = None
        if good is not None:
            filled = [good if isinstance(item, Exception) else item for item in items]
            response = writer_of(self.name, self.version).write(filled, payload.id)
        raise RowErrors({index: _of_row(error, function) for index, error in failed.items()}, response)

    if function.is_async or function.arguments.injection.awaits:

        async def awaited(self: Any, payload: InferenceRequest) -> Any:
            return check(self, payload, await predict(self, payload))

        return awaited

    def called(self: Any, payload: InferenceRequest) -> Any:
        return check(self, payload, predict(self, payload))

    return called


def _of_row(error: Exception, function: Function) -> ModelError:
    """The error of one item, as its client sees it. Other exceptions than the author's own errors tell nothing."""
    if function.app is not None:
        error = function.app.errors.translated(error)
    if isinstance(error, ModelError):
        return error
    if isinstance(error, InferstreamError):
        return ModelError(error.message)
    return ModelError(f"Model {function.name} failed on this item: {type(error).__name__}.", 500)


def _checked_sizes(predict: Method, function: Function) -> Method:
    """Check that a returned array has the sizes of the named dimensions of the arguments."""
    only = function.results.only
    dimensions = getattr(only, "dimensions", None) or ()
    if not any(isinstance(size, str) for size in dimensions):
        return predict
    arguments = function.arguments

    def check(self: Any, payload: InferenceRequest, array: Any) -> Any:
        given = arguments.check_sizes(payload)
        for size, name in zip(getattr(array, "shape", ()), dimensions, strict=False):
            if given.get(name, size) != size:
                raise InvalidOutput(
                    f'Model {self.name} returned {size} for dimension "{name}", which is {given[name]}.'
                )
        return array

    if function.is_async or function.arguments.injection.awaits:

        async def awaited(self: Any, payload: InferenceRequest) -> Any:
            return check(self, payload, await predict(self, payload))

        return awaited

    def called(self: Any, payload: InferenceRequest) -> Any:
        return check(self, payload, predict(self, payload))

    return called


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

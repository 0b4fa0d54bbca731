"""Methods of functions whose dependencies are coroutines. The server sees in this code that they await."""

import inspect
from typing import Any

from ..types import InferenceRequest
from .function import Function
from .injection import in_thread
from .streams import LaterValues


def awaiting_predict(function: Function) -> Any:
    """A `predict` that awaits the dependencies. A blocking function runs in a thread."""
    call, arguments = function.function, function.arguments
    is_async = function.is_async

    async def predict(self: Any, payload: InferenceRequest) -> Any:
        given = arguments.read(payload) | await arguments.injection.filled(payload)
        return await call(**given) if is_async else await in_thread(call, given)

    return predict


def awaiting_stream(function: Function) -> Any:
    """A `predict_stream` that awaits the dependencies and then returns the function's own iterator."""
    call, arguments = function.function, function.arguments

    async def predict_stream(self: Any, payloads: Any) -> Any:
        payload = payloads.take()
        given = arguments.read(payload) | await arguments.injection.filled(payload)
        if arguments.stream is not None:
            given[arguments.stream.name] = LaterValues(arguments, payloads, given)
        items = call(**given)
        return await items if inspect.isawaitable(items) else items

    return predict_stream

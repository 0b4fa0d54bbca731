"""Explanations: requests with a certain parameter call a model's `explain` method instead of `predict`."""

import asyncio
import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from inferstream import MLModel
from inferstream.ext.runtimes import get_custom_handlers
from inferstream.types import InferenceRequest, Parameters

EXPLAIN = "kserve_explain"
"""The request parameter that requests an explanation.

Like other parameters, it is passed to worker processes.
"""


def let_explain(model: MLModel) -> bool:
    """Wrap `predict` so that explanation requests call `explain`.

    Returns False if no suitable method exists.
    """
    explain = getattr(model, "explain", None)
    own_route = any(method == explain for _, method in get_custom_handlers(model))
    if not callable(explain) or own_route or not _takes_request(explain):
        return False
    # Set on the instance, so that other instances of the class are unaffected.
    model.predict = _dispatch(model.predict, explain)  # type: ignore[method-assign]
    return True


def _takes_request(method: Callable[..., Any]) -> bool:
    """Whether the method can be called with one argument. True for C code with an unknown signature."""
    try:
        inspect.signature(method, follow_wrapped=False).bind(None)
    except TypeError:
        return False
    except ValueError:  # raised for a method without parameters, or for C code with an unknown signature
        return not inspect.ismethod(method)
    return True


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(inspect.unwrap(function))


def _dispatch(predict: Callable[..., Any], explain: Callable[..., Any]) -> Callable[..., Any]:
    if not _is_async(predict):

        @wraps(predict)
        def either(payload: InferenceRequest) -> Any:
            asked = _explained_request(payload)
            return predict(payload) if asked is None else explain(asked)

        return either

    @wraps(predict)
    async def either_async(payload: InferenceRequest) -> Any:
        asked = _explained_request(payload)
        if asked is None:
            return await predict(payload)
        answer = explain(asked) if _is_async(explain) else await asyncio.to_thread(explain, asked)
        return await answer if inspect.isawaitable(answer) else answer

    return either_async


def _explained_request(payload: InferenceRequest) -> InferenceRequest | None:
    """Return the request without the explanation parameter, which `explain` can pass to `predict`.

    Returns None for other requests.
    """
    parameters = payload.parameters
    if parameters is None or parameters.get(EXPLAIN) is not True:
        return None
    rest = {name: value for name, value in (parameters.__pydantic_extra__ or {}).items() if name != EXPLAIN}
    others = Parameters.of(rest, parameters.content_type, parameters.headers)
    return InferenceRequest.of(payload.inputs, payload.id, others, payload.outputs)

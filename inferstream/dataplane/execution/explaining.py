"""Explanations: the method `explain` of a class, called in the place of `predict` where a request asks for it."""

import asyncio
import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from inferstream import MLModel
from inferstream.ext.runtimes import get_custom_handlers

from ...types import InferenceRequest, Parameters

EXPLAIN = "kserve_explain"
"""The parameter of a request that asks for an explanation. It crosses queues and workers as others do."""


def let_explain(model: MLModel) -> bool:
    """Let the method `explain` of a class answer too; whether there is one that takes a request."""
    explain = getattr(model, "explain", None)
    own_route = any(method == explain for _, method in get_custom_handlers(model))
    if not callable(explain) or own_route or not _takes_request(explain):
        return False
    # Of the object: a class without `explain` calls its `predict` as before.
    model.predict = _either(model.predict, explain)  # type: ignore[method-assign]
    return True


def _takes_request(method: Callable[..., Any]) -> bool:
    """Whether a call with one argument fits the parameters, as far as Python knows them."""
    try:
        inspect.signature(method, follow_wrapped=False).bind(None)
    except TypeError:
        return False
    except ValueError:  # of a method without any parameter, or of code in C, whose parameters are not known
        return not inspect.ismethod(method)
    return True


def _is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(inspect.unwrap(function))


def _either(predict: Callable[..., Any], explain: Callable[..., Any]) -> Callable[..., Any]:
    if not _is_async(predict):

        @wraps(predict)
        def either(payload: InferenceRequest) -> Any:
            asked = _asked(payload)
            return predict(payload) if asked is None else explain(asked)

        return either

    @wraps(predict)
    async def either_async(payload: InferenceRequest) -> Any:
        asked = _asked(payload)
        if asked is None:
            return await predict(payload)
        answer = explain(asked) if _is_async(explain) else await asyncio.to_thread(explain, asked)
        return await answer if inspect.isawaitable(answer) else answer

    return either_async


def _asked(payload: InferenceRequest) -> InferenceRequest | None:
    """The request for an explanation, as `predict` takes it too, which `explain` may call; None for any other."""
    parameters = payload.parameters
    if parameters is None or parameters.get(EXPLAIN) is not True:
        return None
    rest = {name: value for name, value in (parameters.__pydantic_extra__ or {}).items() if name != EXPLAIN}
    others = Parameters.of(rest, parameters.content_type, parameters.headers)
    return InferenceRequest.of(payload.inputs, payload.id, others, payload.outputs)

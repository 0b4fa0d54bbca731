"""Completes the annotations of functions written for BlazeRPC."""

import functools
import inspect
import typing
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Generator,
    Iterable,
    Iterator,
)
from typing import Annotated, Any

import numpy as np

import inferstream
from inferstream import RequestContext
from inferstream.ext.values import TensorHint

from .context import Context, Depends, MakeContext

Function = Callable[..., Any]

ANY = TensorHint(None, None)
"""The annotation of an array of any numeric type, for functions without a dtype."""

STREAMS = (AsyncIterator, AsyncGenerator, AsyncIterable, Iterator, Generator, Iterable)
"""Annotations of streams."""


def adapt(function: Function, streaming: bool, make: MakeContext) -> Function:
    """Return a function with complete annotations, which is the function itself if nothing is missing.

    Parameters and results without an annotation, or with `np.ndarray`, become arrays of any numeric type.
    `Context` and context dependencies are injected. With `streaming`, a function that is not a generator must
    return an iterator.
    """
    try:
        hints = get_hints(function)
    except (NameError, AttributeError, SyntaxError):
        return function  # The app rejects the function with a message about the annotation.
    signature = inspect.signature(function)
    before = [*signature.parameters.values()]
    parameters = [_parameter(each, hints.get(each.name), make) for each in before]
    returned = _complete_return_hint(function, hints.get("return", inspect.Signature.empty), streaming)
    kept = (
        new.annotation is hints.get(new.name) and new.default is old.default
        for old, new in zip(before, parameters, strict=True)
    )
    if returned is hints.get("return", inspect.Signature.empty) and all(kept):
        return function

    def call(*arguments: Any, **named: Any) -> Any:
        return function(*arguments, **named)

    around: Any = functools.update_wrapper(call, function)
    around.__signature__ = signature.replace(parameters=parameters, return_annotation=returned)
    around.__annotations__ = {each.name: each.annotation for each in parameters} | {"return": returned}
    return call


def get_hints(function: Function) -> dict[str, Any]:
    """Return the annotations of a function.

    Raises NameError, AttributeError or SyntaxError if they cannot be resolved.
    """
    while isinstance(function, functools.partial):
        function = function.func
    try:
        return typing.get_type_hints(function, include_extras=True)
    except TypeError:  # Annotations that are not types, such as TensorInput[...] with a dtype instance.
        return inspect.get_annotations(function)


def _parameter(parameter: inspect.Parameter, hint: Any, make: MakeContext) -> inspect.Parameter:
    if isinstance(parameter.default, Depends):
        filled = inferstream.Depends(_inject_context(parameter.default.fn, make))
        return parameter.replace(default=filled, annotation=Any)
    if hint is Context:
        return parameter.replace(annotation=Annotated[Any, inferstream.Depends(make)])
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        return parameter
    return parameter.replace(annotation=ANY if hint is None or hint is np.ndarray else hint)


def _inject_context(function: Function, make: MakeContext) -> Function:
    """Convert a dependency on the context to a dependency on the request."""
    if inspect.iscoroutinefunction(function):

        async def call_async(context: RequestContext) -> Any:
            return await function(make(context))

        return call_async

    def call(context: RequestContext) -> Any:
        return function(make(context))

    return call


def _complete_return_hint(function: Function, hint: Any, streaming: bool) -> Any:
    if hint is inspect.Signature.empty:
        hint = ANY | None
    elif hint is np.ndarray:
        hint = ANY
    bare = inspect.unwrap(function)
    yields = inspect.isgeneratorfunction(bare) or inspect.isasyncgenfunction(bare)
    streams = typing.get_origin(hint) in STREAMS or hint in STREAMS
    if streaming and not yields and not streams:
        return Iterator[hint]
    return hint

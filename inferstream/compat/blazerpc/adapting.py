"""Functions as BlazeRPC takes them, made into functions whose annotations say everything."""

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
"""The annotation of an array of any numbers, for functions that name no dtype."""

STREAMS = (AsyncIterator, AsyncGenerator, AsyncIterable, Iterator, Generator, Iterable)
"""Annotations of streams."""


def adapted(function: Function, streaming: bool, make: MakeContext) -> Function:
    """The function itself, or one around it whose annotations are complete.

    A parameter without annotation, or annotated as `np.ndarray`, is an array of any numbers, and so is the result.
    `Context` and dependencies of it are filled. With `streaming`, a function that does not yield returns an iterator.
    """
    try:
        hints = hints_of(function)
    except (NameError, AttributeError, SyntaxError):
        return function  # the app refuses it, and says which annotation cannot be read
    signature = inspect.signature(function)
    before = [*signature.parameters.values()]
    parameters = [_parameter(each, hints.get(each.name), make) for each in before]
    returned = _returned(function, hints.get("return", inspect.Signature.empty), streaming)
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


def hints_of(function: Function) -> dict[str, Any]:
    """The annotations of a function. Raises NameError, AttributeError or SyntaxError for one that cannot be read."""
    while isinstance(function, functools.partial):
        function = function.func
    try:
        return typing.get_type_hints(function, include_extras=True)
    except TypeError:  # annotations that are no types, such as TensorInput[...] with a dtype instance
        return inspect.get_annotations(function)


def _parameter(parameter: inspect.Parameter, hint: Any, make: MakeContext) -> inspect.Parameter:
    if isinstance(parameter.default, Depends):
        filled = inferstream.Depends(_filled(parameter.default.fn, make))
        return parameter.replace(default=filled, annotation=Any)
    if hint is Context:
        return parameter.replace(annotation=Annotated[Any, inferstream.Depends(make)])
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        return parameter
    return parameter.replace(annotation=ANY if hint is None or hint is np.ndarray else hint)


def _filled(function: Function, make: MakeContext) -> Function:
    """A dependency of the context as one of the request's own."""
    if inspect.iscoroutinefunction(function):

        async def awaited(context: RequestContext) -> Any:
            return await function(make(context))

        return awaited

    def called(context: RequestContext) -> Any:
        return function(make(context))

    return called


def _returned(function: Function, hint: Any, streaming: bool) -> Any:
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

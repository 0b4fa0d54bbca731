"""Reads the tensors of a method from its annotations."""

import inspect
import types
import typing
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from typing import Any, Union

from ..signature import Tensors
from ..types import InferenceResponse, MetadataTensor, Parameters
from .base import OUTPUT_PREFIX
from .registry import find_input_codec, find_request_codec

ASYNC_STREAMS = (AsyncIterator, AsyncGenerator, AsyncIterable)
STREAMS = (Iterator, Generator, Iterable)


def parameters_of(function: Callable[..., Any], hints: dict[str, Any]) -> list[inspect.Parameter]:
    """The parameters that a request fills. Excludes `self`, `*args`, `**kwargs` and defaults without a hint."""
    filled = []
    for index, parameter in enumerate(inspect.signature(function).parameters.values()):
        hint = hints.get(parameter.name)
        variadic = parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        is_self = index == 0 and codec_of(hint) is None
        is_constant = hint is None and parameter.default is not inspect.Parameter.empty
        if not (variadic or is_self or is_constant):
            filled.append(parameter)
    return filled


def output_hints(returned: Any) -> list[Any]:
    """The hint of each value that a method returns, or that its stream yields."""
    hint = _item(returned)
    if hint is None or hint is type(None) or hint is InferenceResponse:
        return []
    if isinstance(hint, tuple):
        return list(hint)  # `-> (A, B)`, which Python does not change
    if typing.get_origin(hint) is tuple:
        return list(typing.get_args(hint))
    return [hint]


def input_tensors(hints: Mapping[str, Any], defaults: Mapping[str, Any]) -> Tensors | None:
    """The tensors of arguments with these hints; None unless the hints name the datatype of each."""
    return _tensors([_tensor(name, hint, name in defaults, False) for name, hint in hints.items()])


def output_tensors(returned: Any) -> Tensors | None:
    """The tensors that a method returns; None unless its annotation gives their number and datatypes."""
    if _item(returned) in (None, InferenceResponse):
        return None
    return _tensors(
        [
            _tensor(f"{OUTPUT_PREFIX}{index}", hint, False, True)
            for index, hint in enumerate(output_hints(returned))
        ]
    )


def codec_of(hint: Any) -> Any:
    """The input codec for values annotated with `hint`, else the request codec, else None."""
    bare, _ = without_none(hint)
    return find_input_codec(type_hint=bare) or find_request_codec(type_hint=bare)


def without_none(hint: Any) -> tuple[Any, bool]:
    """The hint without `None`, and whether the hint allowed `None`."""
    if typing.get_origin(hint) not in (Union, types.UnionType):
        return hint, False
    members = [member for member in typing.get_args(hint) if member is not type(None)]
    optional = len(members) < len(typing.get_args(hint))
    return (members[0], optional) if len(members) == 1 else (Union[tuple(members)], optional)  # noqa: UP007


def name_of(hint: Any) -> str:
    """A hint, for error messages."""
    return hint.__name__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint)


def _item(returned: Any) -> Any:
    """The hint of one response: an item of a stream, or the return value."""
    is_stream = typing.get_origin(returned) in (*ASYNC_STREAMS, *STREAMS)
    return typing.get_args(returned)[0] if is_stream else returned


def _tensor(name: str, hint: Any, has_default: bool, is_output: bool) -> MetadataTensor | None:
    bare, optional = without_none(hint)
    codec = find_input_codec(type_hint=bare)
    tensor = None if codec is None else codec.describe_tensor(name, bare, is_output)
    if tensor is not None and (optional or has_default):
        parameters = {} if tensor.parameters is None else tensor.parameters.model_dump(exclude_unset=True)
        tensor.parameters = Parameters(**parameters, optional=True)
    return tensor


def _tensors(found: list[MetadataTensor | None]) -> Tensors | None:
    known = tuple(tensor for tensor in found if tensor is not None)
    return known if len(known) == len(found) else None

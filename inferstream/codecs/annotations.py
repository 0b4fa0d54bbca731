"""Derives the tensors of a method from its annotations."""

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any, cast

from ..signature import Tensors
from ..types import InferenceResponse, MetadataTensor, Parameters
from .base import OUTPUT_PREFIX
from .registry import find_input_codec, find_request_codec
from .values.base import Value
from .values.hints import STREAMS, value_for, without_none


def request_parameters(function: Callable[..., Any], hints: dict[str, Any]) -> list[inspect.Parameter]:
    """Return the parameters that a request fills.

    Excludes `self`, `*args`, `**kwargs` and parameters that have a default but no type hint.
    """
    filled = []
    for index, parameter in enumerate(inspect.signature(function).parameters.values()):
        hint = hints.get(parameter.name)
        variadic = parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        is_self = index == 0 and _find_registered_codec(hint) is None
        is_constant = hint is None and parameter.default is not inspect.Parameter.empty
        if not (variadic or is_self or is_constant):
            filled.append(parameter)
    return filled


def output_hints(returned: Any) -> list[Any]:
    """Return the type hint of each value that a method returns, or that its stream yields."""
    hint = _item(returned)
    if hint is None or hint is type(None) or hint is InferenceResponse:
        return []
    if isinstance(hint, tuple):
        return list(hint)  # `-> (A, B)`, which Python leaves as a tuple
    if typing.get_origin(hint) is tuple:
        return list(typing.get_args(hint))
    return [hint]


def input_tensors(hints: Mapping[str, Any], defaults: Mapping[str, Any]) -> Tensors | None:
    """Return the tensors of arguments with these type hints.

    Returns None unless the hints determine every datatype.
    """
    return _tensors([_tensor(name, hint, defaults, False) for name, hint in hints.items()])


def output_tensors(returned: Any) -> Tensors | None:
    """Return the tensors that a method returns.

    Returns None unless its annotation determines their number and datatypes.
    """
    if _item(returned) in (None, InferenceResponse):
        return None
    return _tensors(
        [
            _tensor(f"{OUTPUT_PREFIX}{index}", hint, {}, True)
            for index, hint in enumerate(output_hints(returned))
        ]
    )


def choose_input_codec(hint: Any) -> Any:
    """Return the codec for tensors of values annotated with `hint`, or None.

    Registered codecs take precedence, including request codecs. A `Value` handles any other type.
    """
    codec = find_input_codec(type_hint=strip_annotation(hint))
    if codec is not None or hint is None or find_request_codec(type_hint=strip_annotation(hint)) is not None:
        return codec
    try:
        return value_for(without_none(hint)[0])
    except TypeError:
        return None


def choose_codec(hint: Any) -> Any:
    """Return the input codec for values annotated with `hint`, or the request codec, or None."""
    return choose_input_codec(hint) or _find_registered_codec(hint)


def _find_registered_codec(hint: Any) -> Any:
    return find_input_codec(type_hint=strip_annotation(hint)) or find_request_codec(
        type_hint=strip_annotation(hint)
    )


def strip_annotation(hint: Any) -> Any:
    """Return the type in an annotation, without `None` and without `Annotated` metadata."""
    bare, _ = without_none(hint)
    return typing.get_args(bare)[0] if typing.get_origin(bare) is typing.Annotated else bare


def _item(returned: Any) -> Any:
    """Return the type hint of one response: the item type of a stream, or the return type."""
    return typing.get_args(returned)[0] if typing.get_origin(returned) in STREAMS else returned


def _tensor(name: str, hint: Any, defaults: Mapping[str, Any], is_output: bool) -> MetadataTensor | None:
    codec = choose_input_codec(hint)
    if isinstance(codec, Value):
        return codec.tensor(name, **(codec.describe_optional(defaults[name]) if name in defaults else {}))
    tensor = None if codec is None else codec.describe_tensor(name, strip_annotation(hint), is_output)
    if tensor is not None and (without_none(hint)[1] or name in defaults):
        parameters = {} if tensor.parameters is None else tensor.parameters.model_dump(exclude_unset=True)
        tensor.parameters = Parameters(**parameters, optional=True)
    return cast("MetadataTensor | None", tensor)


def _tensors(tensors: list[MetadataTensor | None]) -> Tensors | None:
    known = tuple(tensor for tensor in tensors if tensor is not None)
    return known if len(known) == len(tensors) else None

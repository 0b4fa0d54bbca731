"""Reads the tensors of a method from its annotations."""

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any, cast

from ..signature import Tensors
from ..types import InferenceResponse, MetadataTensor, Parameters
from .base import OUTPUT_PREFIX
from .registry import find_input_codec, find_request_codec
from .values.base import Value
from .values.hints import STREAMS, value_of, without_none


def parameters_of(function: Callable[..., Any], hints: dict[str, Any]) -> list[inspect.Parameter]:
    """The parameters that a request fills. Excludes `self`, `*args`, `**kwargs` and defaults without a hint."""
    filled = []
    for index, parameter in enumerate(inspect.signature(function).parameters.values()):
        hint = hints.get(parameter.name)
        variadic = parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        is_self = index == 0 and _registered(hint) is None
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
    return _tensors([_tensor(name, hint, defaults, False) for name, hint in hints.items()])


def output_tensors(returned: Any) -> Tensors | None:
    """The tensors that a method returns; None unless its annotation gives their number and datatypes."""
    if _item(returned) in (None, InferenceResponse):
        return None
    return _tensors(
        [
            _tensor(f"{OUTPUT_PREFIX}{index}", hint, {}, True)
            for index, hint in enumerate(output_hints(returned))
        ]
    )


def input_codec_of(hint: Any) -> Any:
    """The codec for tensors of values annotated with `hint`; None without one.

    Registered codecs come first, those of whole requests too: a value of `codecs.values` is for any other type.
    """
    codec = find_input_codec(type_hint=plain(hint))
    if codec is not None or hint is None or find_request_codec(type_hint=plain(hint)) is not None:
        return codec
    try:
        return value_of(without_none(hint)[0])
    except TypeError:
        return None


def codec_of(hint: Any) -> Any:
    """The input codec for values annotated with `hint`, else the request codec, else None."""
    return input_codec_of(hint) or _registered(hint)


def _registered(hint: Any) -> Any:
    return find_input_codec(type_hint=plain(hint)) or find_request_codec(type_hint=plain(hint))


def plain(hint: Any) -> Any:
    """The type in an annotation, without `None` and without what `Annotated` adds."""
    bare, _ = without_none(hint)
    return typing.get_args(bare)[0] if typing.get_origin(bare) is typing.Annotated else bare


def _item(returned: Any) -> Any:
    """The hint of one response: an item of a stream, or the return value."""
    return typing.get_args(returned)[0] if typing.get_origin(returned) in STREAMS else returned


def _tensor(name: str, hint: Any, defaults: Mapping[str, Any], is_output: bool) -> MetadataTensor | None:
    codec = input_codec_of(hint)
    if isinstance(codec, Value):
        return codec.tensor(name, **(codec.optional(defaults[name]) if name in defaults else {}))
    tensor = None if codec is None else codec.describe_tensor(name, plain(hint), is_output)
    if tensor is not None and (without_none(hint)[1] or name in defaults):
        parameters = {} if tensor.parameters is None else tensor.parameters.model_dump(exclude_unset=True)
        tensor.parameters = Parameters(**parameters, optional=True)
    return cast("MetadataTensor | None", tensor)


def _tensors(tensors: list[MetadataTensor | None]) -> Tensors | None:
    known = tuple(tensor for tensor in tensors if tensor is not None)
    return known if len(known) == len(tensors) else None

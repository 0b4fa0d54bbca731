"""Chooses the `Value` for an annotation."""

import enum
import types
import typing
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Sequence,
)
from datetime import date, datetime, time
from typing import Any, Literal, Union

import numpy as np
from typing_extensions import is_typeddict

from ...errors import HINT
from ..registry import resolve_alias
from .arrays import array_for
from .base import SingleValue, Value
from .choices import Choice
from .constraints import Constrained, constrains, takes_raw
from .frames import FrameValue, SeriesValue, is_pandas_class
from .images import Image, is_image
from .lists import ListOf
from .nested_values import adapt_hint
from .objects import Json, Raw
from .scalars import Binary, Boolean, Number, Text, Time, find_number
from .uploads import UploadedFile, is_upload_file

SINGLE: dict[Any, SingleValue] = {
    str: Text(),
    bytes: Binary(),
    int: Number("INT64"),
    float: Number("FP64"),
    bool: Boolean(),
    np.bool_: Boolean(),
    np.str_: Text(),
    np.bytes_: Binary(),
    datetime: Time(datetime),
    date: Time(date),
    time: Time(time),
}


ASYNC_STREAMS = (AsyncIterator, AsyncGenerator, AsyncIterable)
STREAMS = (*ASYNC_STREAMS, Iterator, Generator, Iterable)
"""Annotations of streams."""

FRAMEWORKS = {
    "torch": "torch.from_numpy(x) or y.numpy()",
    "tensorflow": "tf.convert_to_tensor(x) or y.numpy()",
    "jax": "jnp.asarray(x) or np.asarray(y)",
    "jaxlib": "jnp.asarray(x) or np.asarray(y)",
    "pandas": "pd.Index(x) or y.to_numpy()",
}
"""Conversions between NumPy arrays and the tensors of frameworks."""


def value_for(hint: Any, by_item: bool = False) -> Value:
    """Return the `Value` for an annotation without `None`.

    If `by_item` is set, each item of a list is a separate element, even if it is sent as JSON. Raises
    TypeError for an unsupported type.
    """
    hint = resolve_alias(hint)
    if typing.get_origin(hint) is typing.Annotated:
        return _read_annotation(hint)
    known = _single(hint)
    if known is not None:
        return known
    if (array := array_for(hint)) is not None:
        return array
    if typing.get_origin(hint) in (list, Sequence, Iterable, Collection) and typing.get_args(hint):
        item = typing.get_args(hint)[0]
        of = _single(resolve_alias(item)) or (_json(item) if by_item else None)
        return _json(hint) if of is None else ListOf(of)
    return _json(hint)


def _json(hint: Any) -> Json:
    """Return the `Json` for a type that pydantic supports, whose parts may be arrays or data frames.

    Raises TypeError for an unsupported type.
    """
    try:
        if hint in (None, type(None), complex):
            raise TypeError
        return Json(hint)
    except TypeError:
        if (known := adapt_hint(hint, _leaf)) is not hint:
            return Json(known)
        if is_typeddict(hint):
            raise  # the error names the TypedDict to use
        raise TypeError(f"{format_hint(hint)} is not a type that can be sent{HINT}{_advice(hint)}") from None


def _leaf(hint: Any) -> Value | None:
    """Return the `Value` for an array, a NumPy number, a data frame or a series.

    Returns None for other types.
    """
    if is_pandas_class(hint, "Series"):
        return SeriesValue()
    scalar = isinstance(hint, type) and issubclass(hint, np.generic)
    return _single(hint) if scalar or is_pandas_class(hint, "DataFrame") else array_for(hint)


def _advice(hint: Any) -> str:
    """Return the hint in the error message for a type that cannot be sent.

    This is a replacement for a framework's tensor type, or the list of types that can be sent.
    """
    convert = FRAMEWORKS.get(str(getattr(hint, "__module__", "")).partition(".")[0])
    if convert is not None:
        return f"write NDArray[np.float32], and {convert} in the function"
    return "write str, int, float, bool, bytes, NDArray[np.float32], a list, a dict, a dataclass or a pydantic model"


def _single(hint: Any) -> SingleValue | None:
    try:
        if hint in SINGLE:
            return SINGLE[hint]
    except TypeError:  # the annotation is not hashable
        return None
    if typing.get_origin(hint) is Literal:
        return _choice(typing.get_args(hint))
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _choice([member.value for member in hint], hint)
    if isinstance(hint, type) and issubclass(hint, np.number):
        return find_number(hint)
    if is_upload_file(hint):
        return UploadedFile(hint)
    return Image() if is_image(hint) else FrameValue() if is_pandas_class(hint, "DataFrame") else None


def _choice(values: Any, members: type[enum.Enum] | None = None) -> Choice | None:
    """Return a choice of the values. Returns None if they have different types."""
    kinds = {type(value) for value in values}
    of = SINGLE.get(next(iter(kinds))) if len(kinds) == 1 else None
    return None if of is None else Choice(of, values, members)


def _read_annotation(hint: Any) -> Value:
    """Return the `Value` for `Annotated[T, ...]`, whose constraints such as `Field(gt=0)` pydantic checks."""
    if takes_raw(hint):
        return Raw(hint)
    value = value_for(typing.get_args(hint)[0])
    if not constrains(hint):
        return value
    return _json(hint) if isinstance(value, Json) else Constrained(value, hint)


def stream_item(hint: Any) -> tuple[Any, bool]:
    """Return the item annotation of a stream, or the hint itself, and whether the hint is a stream.

    Raises TypeError if the item type of a stream is missing.
    """
    origin = typing.get_origin(hint)
    if origin not in STREAMS and hint not in STREAMS:
        return hint, False
    if not typing.get_args(hint):
        raise TypeError(f"the type of its items is missing: write {(origin or hint).__name__}[str]")
    return typing.get_args(hint)[0], True


def without_none(hint: Any) -> tuple[Any, bool]:
    """Return the hint without `None`, and whether it allowed `None`."""
    hint = resolve_alias(hint)
    origin, members = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        bare, optional = without_none(members[0])
        return (typing.Annotated[(bare, *members[1:])], True) if optional else (hint, False)
    if origin is Literal:
        kept = tuple(member for member in members if member is not None)
        return (Literal[kept], True) if 0 < len(kept) < len(members) else (hint, False)
    if origin not in (Union, types.UnionType):
        return hint, False
    kept = tuple(member for member in members if member is not type(None))
    return (kept[0] if len(kept) == 1 else Union[kept], len(kept) < len(members))  # noqa: UP007


def format_hint(hint: Any) -> str:
    """Return a hint as it appears in error messages."""
    return hint.__name__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint)

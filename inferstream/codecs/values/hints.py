"""Chooses the value of an annotation."""

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

from ..registry import meant
from .arrays import array_of
from .base import SingleValue, Value
from .choices import Choice
from .constraints import Constrained, constrains, takes_raw
from .frames import FrameValue, SeriesValue, is_of_pandas
from .images import Image, is_image
from .inside import readable
from .lists import ListOf
from .objects import Json, Raw
from .scalars import Binary, Boolean, Number, Text, Time, number_of
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
"""How tensors of frameworks are made of arrays, and arrays of them."""


def value_of(hint: Any, by_item: bool = False) -> Value:
    """The value of an annotation without `None`. Raises TypeError, with the reason, for one that cannot be sent.

    If `by_item`, each item of a list is an element of its own, also where it travels as JSON.
    """
    hint = meant(hint)
    if typing.get_origin(hint) is typing.Annotated:
        return _annotated(hint)
    known = _single(hint)
    if known is not None:
        return known
    if (array := array_of(hint)) is not None:
        return array
    if typing.get_origin(hint) in (list, Sequence, Iterable, Collection) and typing.get_args(hint):
        item = typing.get_args(hint)[0]
        of = _single(meant(item)) or (_json(item) if by_item else None)
        return _json(hint) if of is None else ListOf(of)
    return _json(hint)


def _json(hint: Any) -> Json:
    """JSON of a type that pydantic knows, whose parts may be arrays and the like. Raises TypeError."""
    try:
        if hint in (None, type(None), complex):
            raise TypeError
        return Json(hint)
    except TypeError:
        if (known := readable(hint, _leaf)) is not hint:
            return Json(known)
        if is_typeddict(hint):
            raise  # pydantic says which TypedDict to use
        raise TypeError(f"{shown(hint)} is no type that can be sent{_advice(hint)}") from None


def _leaf(hint: Any) -> Value | None:
    """The value of an array, a number of NumPy, a frame or a series; None for other types."""
    if is_of_pandas(hint, "Series"):
        return SeriesValue()
    scalar = isinstance(hint, type) and issubclass(hint, np.generic)
    return _single(hint) if scalar or is_of_pandas(hint, "DataFrame") else array_of(hint)


def _advice(hint: Any) -> str:
    """What to write in place of the tensor of a framework."""
    convert = FRAMEWORKS.get(str(getattr(hint, "__module__", "")).partition(".")[0])
    return "" if convert is None else f"; write NDArray[np.float32], and {convert} in the function"


def _single(hint: Any) -> SingleValue | None:
    try:
        if hint in SINGLE:
            return SINGLE[hint]
    except TypeError:  # an annotation that has no hash
        return None
    if typing.get_origin(hint) is Literal:
        return _choice(typing.get_args(hint))
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _choice([member.value for member in hint], hint)
    if isinstance(hint, type) and issubclass(hint, np.number):
        return number_of(hint)
    if is_upload_file(hint):
        return UploadedFile(hint)
    return Image() if is_image(hint) else FrameValue() if is_of_pandas(hint, "DataFrame") else None


def _choice(values: Any, members: type[enum.Enum] | None = None) -> Choice | None:
    """One of the values; None if they are of several types."""
    kinds = {type(value) for value in values}
    of = SINGLE.get(next(iter(kinds))) if len(kinds) == 1 else None
    return None if of is None else Choice(of, values, members)


def _annotated(hint: Any) -> Value:
    """`Annotated[T, ...]`: pydantic checks constraints such as `Field(gt=0)`."""
    if takes_raw(hint):
        return Raw(hint)
    value = value_of(typing.get_args(hint)[0])
    if not constrains(hint):
        return value
    return _json(hint) if isinstance(value, Json) else Constrained(value, hint)


def item_of(hint: Any) -> tuple[Any, bool]:
    """The annotation of one item of a stream, or the hint itself; and whether it is that of a stream.

    Raises TypeError for a stream of unknown items.
    """
    origin = typing.get_origin(hint)
    if origin not in STREAMS and hint not in STREAMS:
        return hint, False
    if not typing.get_args(hint):
        raise TypeError(f"the type of its items is missing: write {(origin or hint).__name__}[str]")
    return typing.get_args(hint)[0], True


def without_none(hint: Any) -> tuple[Any, bool]:
    """The hint without `None`, and whether the hint allowed `None`."""
    hint = meant(hint)
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


def shown(hint: Any) -> str:
    """A hint, for error messages."""
    return hint.__name__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint)

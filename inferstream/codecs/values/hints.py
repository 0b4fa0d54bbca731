"""Chooses the value of an annotation."""

import enum
import types
import typing
from datetime import date, datetime, time
from typing import Any, Literal, Union

import numpy as np

from .arrays import array_of
from .base import Value
from .frames import Frame, is_frame
from .images import Image, is_image
from .lists import ListOf
from .objects import Json, is_object
from .scalars import Binary, Boolean, Choice, Number, Text, Time, number_of

SINGLE: dict[Any, Value] = {
    str: Text(),
    bytes: Binary(),
    int: Number("INT64"),
    float: Number("FP64"),
    bool: Boolean(),
    np.bool_: Boolean(),
    datetime: Time(datetime),
    date: Time(date),
    time: Time(time),
}


def value_of(hint: Any) -> Value:
    """The value of an annotation without `None`. Raises TypeError, with the reason, for one that cannot be sent."""
    if typing.get_origin(hint) is typing.Annotated:
        return _annotated(hint)
    known = _single(hint)
    if known is not None:
        return known
    if (array := array_of(hint)) is not None:
        return array
    if is_image(hint):
        return Image()
    if is_frame(hint):
        return Frame()
    if typing.get_origin(hint) is list:
        (element,) = typing.get_args(hint)
        of = _single(element)
        return Json(hint) if of is None else ListOf(of)
    if is_object(hint):
        return Json(hint)
    raise TypeError(f"{shown(hint)} is no type that can be sent")


def _single(hint: Any) -> Value | None:
    try:
        if hint in SINGLE:
            return SINGLE[hint]
    except TypeError:  # an annotation that has no hash
        return None
    if typing.get_origin(hint) is Literal:
        return _choice(typing.get_args(hint), hint)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _choice([member.value for member in hint], hint, hint)
    if isinstance(hint, type) and issubclass(hint, np.number):
        return number_of(hint)
    return None


def _choice(values: Any, hint: Any, members: type[enum.Enum] | None = None) -> Choice:
    kinds = {type(value) for value in values}
    of = SINGLE.get(next(iter(kinds))) if len(kinds) == 1 else None
    if of is None:
        raise TypeError(f"{shown(hint)} must have values of one type: str, int, float, bool or bytes")
    return Choice(of, values, members)


def _annotated(hint: Any) -> Value:
    """`Annotated[T, ...]`: what pydantic knows of it counts, if T travels as JSON."""
    bare, *extra = typing.get_args(hint)
    value = value_of(bare)
    return Json(hint) if isinstance(value, Json) and extra else value


def without_none(hint: Any) -> tuple[Any, bool]:
    """The hint without `None`, and whether the hint allowed `None`."""
    if typing.get_origin(hint) not in (Union, types.UnionType):
        return hint, False
    members = [member for member in typing.get_args(hint) if member is not type(None)]
    optional = len(members) < len(typing.get_args(hint))
    return (members[0], optional) if len(members) == 1 else (Union[tuple(members)], optional)  # noqa: UP007


def shown(hint: Any) -> str:
    """A hint, for error messages."""
    return hint.__name__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint)

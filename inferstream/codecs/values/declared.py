"""Chooses the `Value` for a declared tensor, for clients and typed services, which see only metadata."""

from datetime import date, datetime, time
from typing import Any

import orjson

from ...types import MetadataTensor
from .arrays import Array
from .base import CHOICES, DIMENSIONS, FORMAT, SingleValue, Value, fact
from .choices import Choice
from .frames import FrameValue
from .images import Image
from .lists import ListOf
from .objects import Json
from .scalars import Binary, Boolean, Number, Text, Time

TIMES = {"date": date, "time": time}

FILES: dict[str | None, SingleValue] = {"json": Json(Any), "pd_json": FrameValue(), "image": Image()}


def value_of_tensor(tensor: MetadataTensor) -> Value:
    """Return the `Value` for a declared tensor.

    A tensor of shape [1] is a single value, and a tensor of shape [-1] is a list. Numeric tensors with
    another shape, or with content type `np`, are arrays.
    """
    content = None if tensor.parameters is None else tensor.parameters.content_type
    if tensor.datatype != "BYTES" and (content == "np" or tensor.shape not in ([1], [-1])):
        return Array(tensor.datatype, _dimensions(tensor))
    single = _single(tensor.datatype, content, fact(tensor, FORMAT))
    choices = fact(tensor, CHOICES)
    if choices is not None:
        single = Choice(single, [single.from_json(value) for value in orjson.loads(choices)])
    return single if tensor.shape == [1] else ListOf(single)


def _single(datatype: str, content: str | None, form: str | None) -> SingleValue:
    if datatype == "BYTES":
        if content in FILES:
            return FILES[content]
        if content == "datetime":
            return Time(TIMES.get(form or "", datetime))
        return Binary() if content == "base64" else Text()
    return Boolean() if datatype == "BOOL" else Number(datatype)


def _dimensions(tensor: MetadataTensor) -> tuple[Any, ...] | None:
    named = fact(tensor, DIMENSIONS)
    if named is not None:
        return tuple(orjson.loads(named))
    return None if tensor.shape == [-1] else tuple(None if size == -1 else size for size in tensor.shape)

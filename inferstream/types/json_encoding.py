"""JSON encoding and decoding of any Python value.

It is used for the content of objects and lists, which have no datatype. Bytes are encoded as base64, times
and durations as ISO 8601, and missing values, NaN and infinities as null.
"""

import base64
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import Any
from uuid import UUID

import msgspec
import numpy as np
import numpy.typing as npt
import orjson
from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, SchemaSerializer, to_json, to_jsonable_python

from .json_schemas import adapt_schema

_PLAIN = {str, int, float, bool, type(None), datetime, date, time, timedelta, Decimal, UUID}
_MISSING = ("NaTType", "NAType")
_BYTES = (bytes, bytearray, memoryview)


def encode(value: Any, *, text_bytes: bool = False, options: int = 0) -> bytes:
    """Encode a value as compact JSON in UTF-8. Raises TypeError naming a type that JSON cannot represent.

    With `text_bytes`, bytes are decoded as UTF-8 instead of written as base64, and invalid UTF-8 raises
    ValueError. `options` are orjson options.
    """
    plain = text_value if text_bytes else plain_value
    try:
        return orjson.dumps(value, plain, orjson.OPT_NON_STR_KEYS | options)
    except orjson.JSONEncodeError:
        pass  # keys that orjson rejects, integers beyond 64 bits, or a value that JSON cannot represent
    try:
        return to_json(to_jsonable(value, plain), inf_nan_mode="null")
    except RecursionError:
        raise TypeError("JSON cannot hold a value that is nested too deep, or refers to itself") from None
    except PydanticSerializationError as error:
        raise TypeError(f"JSON cannot hold the value: {error}") from None


def decode(text: str | bytes) -> Any:
    """Decode JSON with exact integers. Raises orjson.JSONDecodeError."""
    try:
        return msgspec.json.decode(text)  # orjson turns integers beyond 64 bits into floats
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return orjson.loads(text)


def encode_part(value: Any) -> bytes:
    """Encode a value with an untyped annotation such as `dict`. Times in UTC end in Z, as in pydantic."""
    return encode(value, options=orjson.OPT_UTC_Z)


def convert_part(value: Any) -> Any:
    """Convert a value of any type within a value that pydantic serializes.

    For large values, this takes a third of the time of `to_jsonable`.
    """
    return value if type(value) in _PLAIN else decode(encode_part(value))


def to_jsonable(value: Any, plain: "Callable[[Any], Any] | None" = None) -> Any:
    """Copy a value into new lists and dicts that contain only types that pydantic serializes.

    Raises TypeError for a value that JSON cannot represent.
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, Mapping):
        return {_key(key): to_jsonable(each, plain) for key, each in value.items()}
    if kind is list or kind is tuple:
        return [to_jsonable(each, plain) for each in value]
    if kind is orjson.Fragment:
        return orjson.loads(orjson.dumps(value))
    if isinstance(value, BaseModel):
        return _serializer(type(value)).to_python(value, mode="json", by_alias=True, fallback=to_jsonable)
    if isinstance(value, Enum):
        return to_jsonable(value.value, plain)
    if isinstance(value, str | int | float) and not isinstance(value, np.generic):
        base = next(each for each in (str, int, float) if isinstance(value, each))
        return base(value)
    if is_dataclass(value):
        return {each.name: to_jsonable(getattr(value, each.name), plain) for each in fields(value)}
    return to_jsonable((plain or plain_value)(value), plain)


def _key(key: Any) -> Any:
    """Convert an object key to a scalar. Raises TypeError for a list."""
    value = to_jsonable(key)
    if isinstance(value, list):
        raise TypeError(f"JSON cannot hold a key of type {type(key).__name__}")
    return value


def text_value(value: Any) -> Any:
    """Like `plain_value`, but decode bytes as UTF-8."""
    return value.decode() if isinstance(value, bytes) else plain_value(value)


def plain_value(value: Any) -> Any:
    """Convert a value that the JSON encoder does not support.

    Raises TypeError if JSON cannot represent it.
    """
    if isinstance(value, _BYTES):
        return base64.b64encode(value).decode()
    if isinstance(value, np.generic):
        return _number(value)
    if isinstance(value, np.ndarray):
        return _array(value)
    if isinstance(value, BaseModel):
        return orjson.Fragment(_serializer(type(value)).to_json(value, by_alias=True, fallback=to_jsonable))
    name = type(value).__name__
    if name in _MISSING:
        return None
    if isinstance(value, datetime | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return to_jsonable_python(timedelta(value.days, value.seconds, value.microseconds))
    if isinstance(value, Decimal | UUID):
        return str(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return _collection(value, name)


def _collection(value: Any, name: str) -> Any:
    """Convert a container: attrs and msgspec objects, data frames, series, tensors, sets and queues."""
    names = getattr(value, "__struct_fields__", None)
    if (attributes := getattr(type(value), "__attrs_attrs__", None)) is not None:
        names = [each.name for each in attributes]
    if names is not None:
        return {each: getattr(value, each) for each in names}
    if name == "DataFrame":
        return to_columns(value)
    if hasattr(value, "tolist"):
        try:
            return value.tolist()
        except RuntimeError as error:  # raised by torch for sparse, quantized and meta tensors
            reason = str(error).partition("\n")[0]
            raise TypeError(f"JSON cannot hold this {name}: {reason}") from None
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Collection):
        return list(value)
    if type(value).__module__.partition(".")[0] in ("pandas", "ipaddress", "fractions"):
        return str(value)  # periods, intervals, addresses
    if not hasattr(value, "__next__") and not isinstance(value, complex):
        try:
            return to_jsonable_python(value)
        except PydanticSerializationError:
            pass
    raise TypeError(f"JSON cannot hold a value of type {name}")


def to_columns(frame: Any) -> dict[str, list[Any]]:
    """Return the columns of a data frame by name. Raises ValueError for a duplicate name."""
    names = [*map(str, frame.columns)]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f'the data frame has more than one column "{twice}"')
    return {name: frame.iloc[:, position].tolist() for position, name in enumerate(names)}


def _number(value: np.generic) -> Any:
    kind = value.dtype.kind
    if kind == "c":
        raise TypeError(f"JSON cannot hold a value of type {type(value).__name__}")
    if kind in "mM":
        if np.isnat(value):
            return None
        if kind == "m":
            exact = value.astype("m8[us]").item()
            return to_jsonable_python(exact)
    elif value.dtype.itemsize > 8 or kind not in "biuf":
        return float(value) if kind == "f" else value.item()
    return orjson.Fragment(orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY))


def _array(array: npt.NDArray[Any]) -> Any:
    kind = array.dtype.kind
    if kind == "c":
        raise TypeError(f"JSON cannot hold an array of {array.dtype}")
    if isinstance(array, np.ma.MaskedArray) or kind not in "biufmM" or array.dtype.itemsize > 8:
        return array.astype(float).tolist() if kind == "f" else array.tolist()
    if array.ndim == 0:
        return array[()]
    if kind in "mM":
        return [*array]
    native = np.ascontiguousarray(array, array.dtype.newbyteorder("="))
    return orjson.Fragment(orjson.dumps(native, option=orjson.OPT_SERIALIZE_NUMPY))


@lru_cache(256)
def _serializer(model: type[BaseModel]) -> SchemaSerializer:
    schema = model.__pydantic_core_schema__
    adapted = adapt_schema(schema, convert_part)
    if adapted == schema:
        return model.__pydantic_serializer__
    make: Any = SchemaSerializer
    made: SchemaSerializer = make(adapted, _use_prebuilt=False)
    return made

"""Arrays, numbers of NumPy, frames and series inside types that pydantic reads, such as `dict[str, NDArray]`."""

import dataclasses
import types
import typing
from collections.abc import Callable
from copy import copy
from typing import Annotated, Any, Literal, Union

from pydantic import BaseModel, GetPydanticSchema, WithJsonSchema, create_model
from pydantic_core import PydanticCustomError, core_schema
from typing_extensions import TypedDict, is_typeddict

from ...types.json_encoding import rewritten
from ..registry import meant
from .base import Value, reason

Leaf = Callable[[Any], Value | None]
"""The value of a type that pydantic does not know; None for other types."""


def readable(hint: Any, leaf: Leaf, outer: tuple[Any, ...] = ()) -> Any:
    """An annotation in which pydantic reads and writes each `leaf` as its value does; `hint` itself without a leaf.

    Classes with such fields become subclasses, so that a function gets an instance of the class that it names.
    """
    if (value := leaf(meant(hint))) is not None:
        return _annotated(value)
    parts, origin = typing.get_args(hint), typing.get_origin(hint)
    if hint in outer or origin is Literal:
        return hint
    if parts:
        changed = tuple(readable(part, leaf, outer) for part in parts)
        if all(new is part for new, part in zip(changed, parts, strict=True)):
            return hint
        return (Union if origin is types.UnionType else origin)[changed]
    if not isinstance(hint, type) or not (is_typeddict(hint) or _has_fields(hint)):
        return hint
    fields = typing.get_type_hints(hint, include_extras=True)
    inner = {name: readable(field, leaf, (*outer, hint)) for name, field in fields.items()}
    changes = {name: field for name, field in inner.items() if field is not fields[name]}
    return _subclass(hint, inner, changes) if changes else hint


def _has_fields(hint: type) -> bool:
    return dataclasses.is_dataclass(hint) or issubclass(hint, BaseModel) or hasattr(hint, "_fields")


def _subclass(hint: Any, fields: dict[str, Any], changes: dict[str, Any]) -> Any:
    name, make = hint.__name__, typing.cast(Any, TypedDict)
    if is_typeddict(hint):
        return make(name, fields, total=hint.__total__)
    if issubclass(hint, BaseModel):
        changed: Any = {field: (kind, hint.model_fields[field]) for field, kind in changes.items()}
        return create_model(name, __base__=hint, **changed)
    made = type(name, (hint,), {"__annotations__": changes, "__module__": hint.__module__})
    if dataclasses.is_dataclass(hint):
        copies = {field.name: copy(field) for field in dataclasses.fields(hint)}
        for field, kind in changes.items():
            copies[field].type = kind
        made.__dataclass_fields__ = copies  # type: ignore[attr-defined]
    return made


def _annotated(value: Value) -> Any:
    def read(sent: Any) -> Any:
        return _checked(value.from_json, sent)

    def keep(returned: Any) -> Any:
        _checked(value.write, returned)
        return returned

    schema = core_schema.json_or_python_schema(
        core_schema.no_info_plain_validator_function(read),
        core_schema.no_info_plain_validator_function(keep),
        serialization=core_schema.plain_serializer_function_ser_schema(rewritten, when_used="json"),
    )
    return Annotated[Any, GetPydanticSchema(lambda *_: schema), WithJsonSchema(dict(value.inner_schema))]


def _checked(convert: Callable[[Any], Any], value: Any) -> Any:
    try:
        return convert(value)
    except (TypeError, ValueError) as error:
        raise PydanticCustomError("value", "{said}", {"said": reason(error)}) from None

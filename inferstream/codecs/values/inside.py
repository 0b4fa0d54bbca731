"""Arrays, numbers of NumPy, frames and series inside types that pydantic reads, such as `dict[str, NDArray]`."""

import inspect
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any, Literal, NotRequired, Union

from pydantic import AfterValidator, BeforeValidator, GetPydanticSchema, WithJsonSchema
from pydantic_core import CoreSchema, PydanticCustomError, core_schema
from typing_extensions import TypedDict, is_typeddict

from ...types.json_encoding import rewritten
from ..registry import meant
from .base import Value, reason
from .scalars import Number

Leaf = Callable[[Any], Value | None]
"""The value of a type that pydantic does not know; None for other types."""


def readable(hint: Any, leaf: Leaf, outer: tuple[Any, ...] = ()) -> Any:
    """An annotation in which pydantic reads and writes each `leaf` as its value does; `hint` itself without a leaf."""
    if (value := leaf(meant(hint))) is not None:
        return _annotated(value)
    parts, origin = typing.get_args(hint), typing.get_origin(hint)
    if hint in outer or origin is Literal:
        return hint
    if not parts:
        return _with_fields(hint, leaf, (*outer, hint)) if isinstance(hint, type) else hint
    changed = tuple(readable(part, leaf, outer) for part in parts)
    if all(new is part for new, part in zip(changed, parts, strict=True)):
        return hint
    return (Union if origin is types.UnionType else origin)[changed]


def _with_fields(hint: Any, leaf: Leaf, outer: tuple[Any, ...]) -> Any:
    """The same for a class whose fields have annotations: a TypedDict, dataclass, NamedTuple or pydantic model."""
    names = ("__total__", "__dataclass_fields__", "_fields", "model_fields")
    fields = (
        typing.get_type_hints(hint, include_extras=True) if any(hasattr(hint, name) for name in names) else {}
    )
    known = {name: readable(kind, leaf, outer) for name, kind in fields.items()}
    if all(known[name] is fields[name] for name in fields):
        return hint
    make = typing.cast(Any, TypedDict)
    if is_typeddict(hint):
        return make(hint.__name__, known, total=hint.__total__)
    given = {
        name: known.get(name, Any)
        if parameter.default is parameter.empty
        else NotRequired[known.get(name, Any)]
        for name, parameter in inspect.signature(hint).parameters.items()
    }
    shape = make(hint.__name__, given)
    return Annotated[shape, BeforeValidator(_fields_of), AfterValidator(lambda values: hint(**values))]


def _fields_of(value: Any) -> Any:
    return value._asdict() if hasattr(value, "_asdict") else getattr(value, "__dict__", value)


def _annotated(value: Value) -> Any:
    schema = core_schema.json_or_python_schema(
        _validator(value.from_json),
        _validator(lambda returned: value.write(returned) and returned),
        serialization=core_schema.plain_serializer_function_ser_schema(rewritten, when_used="json"),
    )
    kind = "number" if isinstance(value, Number) else ["array", "object"]
    return Annotated[Any, GetPydanticSchema(lambda *_: schema), WithJsonSchema({"type": kind})]


def _validator(convert: Callable[[Any], Any]) -> CoreSchema:
    def validate(value: Any) -> Any:
        try:
            return convert(value)
        except (TypeError, ValueError) as error:
            raise PydanticCustomError("value", "{said}", {"said": reason(error)}) from None

    return core_schema.no_info_plain_validator_function(validate)

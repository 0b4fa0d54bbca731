"""Arrays, NumPy numbers, data frames and series inside pydantic types, such as `dict[str, NDArray]`."""

import inspect
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any, Literal, NotRequired, Union

from pydantic import AfterValidator, BeforeValidator, GetPydanticSchema, WithJsonSchema
from pydantic_core import CoreSchema, PydanticCustomError, core_schema
from typing_extensions import TypedDict, is_typeddict

from ...types.json_encoding import convert_part
from ..registry import resolve_alias
from .base import Value, reason
from .scalars import Number

Leaf = Callable[[Any], Value | None]
"""A function that returns the `Value` for a type that pydantic does not support, or None."""


def adapt_hint(hint: Any, leaf: Leaf, outer: tuple[Any, ...] = ()) -> Any:
    """Return an annotation in which pydantic converts each `leaf` with its `Value`.

    Returns `hint` itself if it contains no leaf.
    """
    if (value := leaf(resolve_alias(hint))) is not None:
        return _build_validator(value)
    parts, origin = typing.get_args(hint), typing.get_origin(hint)
    if hint in outer or origin is Literal:
        return hint
    if not parts:
        return _adapt_class(hint, leaf, (*outer, hint)) if isinstance(hint, type) else hint
    changed = tuple(adapt_hint(part, leaf, outer) for part in parts)
    if all(new is part for new, part in zip(changed, parts, strict=True)):
        return hint
    return (Union if origin is types.UnionType else origin)[changed]


def _adapt_class(hint: Any, leaf: Leaf, outer: tuple[Any, ...]) -> Any:
    """Like `adapt_hint`, for classes with annotated fields: TypedDicts, dataclasses, NamedTuples and models."""
    names = ("__total__", "__dataclass_fields__", "_fields", "model_fields")
    fields = (
        typing.get_type_hints(hint, include_extras=True) if any(hasattr(hint, name) for name in names) else {}
    )
    known = {name: adapt_hint(kind, leaf, outer) for name, kind in fields.items()}
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
    return Annotated[shape, BeforeValidator(_get_fields), AfterValidator(lambda values: hint(**values))]


def _get_fields(value: Any) -> Any:
    return value._asdict() if hasattr(value, "_asdict") else getattr(value, "__dict__", value)


def _build_validator(value: Value) -> Any:
    schema = core_schema.json_or_python_schema(
        _validator(value.from_json),
        _validator(lambda returned: value.write(returned) and returned),
        serialization=core_schema.plain_serializer_function_ser_schema(convert_part, when_used="json"),
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

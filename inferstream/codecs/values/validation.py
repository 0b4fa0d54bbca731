"""Validates JSON values with pydantic.

Large values fail at their first fault, and other threads can run while large values are validated.
"""

import gc
from functools import cached_property
from typing import Any, NoReturn, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_core import SchemaSerializer, SchemaValidator, core_schema

from ...types.json_encoding import convert_part, encode_part, to_jsonable
from ...types.json_schemas import NO_SCHEMAS, accepts_any_type, adapt_schema

LARGE = 16 * 1024
"""The size, in bytes of JSON or items of a list, above which validation fails fast and yields to threads."""

SHOWN = 5
"""The maximum number of faults that an error lists."""

MANY = 1000
"""The number of faults above which an error only counts them, because each takes 3 µs and 600 bytes."""

_LISTS = ("list", "set", "frozenset", "tuple")
_RETRIES = ("union", "lax-or-strict", "function-wrap")
"""Schemas that can be valid although a part of them is invalid."""


class AdaptedType:
    """Reads and writes the values of a type, with bytes as base64 and untyped values converted as usual."""

    def __init__(self, adapter: TypeAdapter[Any]) -> None:
        self.core_schema: Any = adapt_schema(adapter.core_schema, convert_part)
        serializer: SchemaSerializer = adapter.serializer
        validator: SchemaValidator = cast(SchemaValidator, adapter.validator)
        if self.core_schema != adapter.core_schema:
            serializer = _build(SchemaSerializer, self.core_schema)
            validator = _build(SchemaValidator, self.core_schema)
        self._serializer = serializer
        self.validate_json = validator.validate_json
        self.validate_python = validator.validate_python
        self.dump_json = encode_part if accepts_any_type(adapter.core_schema) else self._dump_json

    def _dump_json(self, value: Any) -> bytes:
        return self._serializer.to_json(value, by_alias=True, warnings=False, fallback=to_jsonable)


def _build(kind: Any, schema: Any) -> Any:
    try:
        return kind(schema, _use_prebuilt=False)  # the prebuilt ones of model classes are not adapted
    except TypeError:  # older releases have no prebuilt ones
        return kind(schema)


class Validator:
    """Validates the values of a type. Raises ValueError, which lists the faults."""

    def __init__(self, adapter: TypeAdapter[Any] | AdaptedType) -> None:
        self._adapter = adapter

    @cached_property
    def _large(self) -> SchemaValidator:
        schema = self._adapter.core_schema
        return cast(
            SchemaValidator, _build(SchemaValidator, _stop_at_first_fault(schema, not _may_retry(schema)))
        )

    def validate_json(self, text: str | bytes) -> Any:
        return self._validate("validate_json", text, len(text))

    def validate_python(self, value: Any) -> Any:
        return self._validate("validate_python", value, len(value) if isinstance(value, list | dict) else 0)

    def _validate(self, method: str, value: Any, size: int) -> Any:
        large = size > LARGE
        collects = large and gc.isenabled()
        if collects:
            gc.disable()  # garbage collection would take five times as long as the validation
        try:
            return getattr(self._large if large else self._adapter, method)(value)
        except ValidationError as error:
            raise ValueError(format_faults(error)) from None
        except _Stop:
            raise ValueError("an object has a key or a value that does not fit") from None
        finally:
            if collects:
                gc.enable()


def format_faults(error: ValidationError) -> str:
    """Return the faults with their locations, such as `field "age": input should be a valid integer`."""
    if (count := error.error_count()) > MANY:
        return f"{count} values do not fit"
    said = []
    for fault in error.errors(include_url=False, include_context=False)[:SHOWN]:
        parts = [
            str(part) for part in fault["loc"] if "function-" not in str(part)
        ]  # from `_stop_at_first_fault`
        place, message = ".".join(parts), fault["msg"]
        if fault["type"] == "json_invalid":
            message = f"not valid JSON ({message.partition(': ')[2]})"
        elif fault["type"] == "int_parsing_size":
            message = "an integer beyond 64 bits is out of range"
        message = message[:1].lower() + message[1:]
        said.append(f'field "{place}": {message}' if place else message)
    return "; ".join(said)


class _Stop(Exception):
    """Stops a validation. pydantic would collect any other error, one for each value of an object."""


def _same(value: Any) -> Any:
    return value


def _stop(*_: Any) -> NoReturn:
    raise _Stop


def _may_retry(schema: Any) -> bool:
    parts = (
        schema if isinstance(schema, list | tuple) else schema.values() if isinstance(schema, dict) else ()
    )
    return (isinstance(schema, dict) and schema.get("type") in _RETRIES) or any(map(_may_retry, parts))


def _stop_at_first_fault(schema: Any, stops: bool, forbids: bool = False) -> Any:
    """Copy a schema so that it stops at the first fault of a list, and of an object if `stops` is set.

    Its values pass through a Python function, where the interpreter can switch to another thread.
    """
    if isinstance(schema, list | tuple):
        return type(schema)(_stop_at_first_fault(each, stops, forbids) for each in schema)
    if not isinstance(schema, dict):
        return schema
    config = schema.get("config")
    if isinstance(config, dict):
        forbids = config.get("extra_fields_behavior") == "forbid"
    copy = {
        name: each if name in NO_SCHEMAS else _stop_at_first_fault(each, stops, forbids)
        for name, each in schema.items()
    }
    kind = copy.get("type")
    if kind in _LISTS:
        items = copy.get("items_schema")
        passing = [_wrap_passing(each) for each in items] if isinstance(items, list) else _wrap_passing(items)
        copy.update(fail_fast=True, items_schema=passing)
    elif kind == "dict":
        for part in ("keys_schema", "values_schema"):
            inner = _wrap_passing(copy.get(part))
            copy[part] = (
                core_schema.with_default_schema(inner, on_error="default", default_factory=_stop)
                if stops
                else inner
            )
    elif kind in ("model-fields", "typed-dict") and stops and forbids:
        unknown = core_schema.no_info_plain_validator_function(_stop)
        copy.update(extra_behavior="allow", extras_schema=unknown)
    return copy


def _wrap_passing(schema: Any) -> Any:
    return core_schema.no_info_after_validator_function(_same, schema or core_schema.any_schema())

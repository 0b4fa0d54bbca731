"""Validates JSON values by pydantic, so that a large wrong one costs little and a large right one holds nobody up."""

import gc
from functools import cached_property
from typing import Any, NoReturn, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_core import SchemaSerializer, SchemaValidator, core_schema

from ...types.json_encoding import encode_part, jsonable, rewritten
from ...types.json_schemas import NO_SCHEMAS, adapted_schema, is_untyped

LARGE = 16 * 1024
"""Bytes of a text, or values of a list, from which validation ends early and lets other threads run."""

SHOWN = 5
"""Faults that an error names."""

MANY = 1000
"""Faults from which an error gives their number: pydantic takes 3 µs and 600 bytes to name each."""

_LISTS = ("list", "set", "frozenset", "tuple")
_RETRIES = ("union", "lax-or-strict", "function-wrap")
"""Schemas that may be right where a part of them is wrong."""


class AdaptedType:
    """Reads and writes the values of a type, with bytes as base64, and values of any type as all values are."""

    def __init__(self, adapter: TypeAdapter[Any]) -> None:
        self.core_schema: Any = adapted_schema(adapter.core_schema, rewritten)
        serializer: SchemaSerializer = adapter.serializer
        validator: SchemaValidator = cast(SchemaValidator, adapter.validator)
        if self.core_schema != adapter.core_schema:
            serializer = _made(SchemaSerializer, self.core_schema)
            validator = _made(SchemaValidator, self.core_schema)
        self._serializer = serializer
        self.validate_json = validator.validate_json
        self.validate_python = validator.validate_python
        self.dump_json = encode_part if is_untyped(adapter.core_schema) else self._dump_json

    def _dump_json(self, value: Any) -> bytes:
        return self._serializer.to_json(value, by_alias=True, warnings=False, fallback=jsonable)


def _made(kind: Any, schema: Any) -> Any:
    try:
        return kind(schema, _use_prebuilt=False)  # the prebuilt ones of model classes are not adapted
    except TypeError:  # of older releases, which have no prebuilt ones
        return kind(schema)


class Validator:
    """The values of a type. Raises ValueError, which names the faults."""

    def __init__(self, adapter: TypeAdapter[Any] | AdaptedType) -> None:
        self._adapter = adapter

    @cached_property
    def _large(self) -> SchemaValidator:
        schema = self._adapter.core_schema
        return cast(SchemaValidator, _made(SchemaValidator, _guarded(schema, not _retries(schema))))

    def of_json(self, text: str | bytes) -> Any:
        return self._validated("validate_json", text, len(text))

    def of_python(self, value: Any) -> Any:
        return self._validated("validate_python", value, len(value) if isinstance(value, list | dict) else 0)

    def _validated(self, method: str, value: Any, size: int) -> Any:
        large = size > LARGE
        collects = large and gc.isenabled()
        if collects:
            gc.disable()  # its runs take five times as long as the validation
        try:
            return getattr(self._large if large else self._adapter, method)(value)
        except ValidationError as error:
            raise ValueError(faults(error)) from None
        except _Stop:
            raise ValueError("an object has a key or a value that does not fit") from None
        finally:
            if collects:
                gc.enable()


def faults(error: ValidationError) -> str:
    """Each fault with its place: `field "age": input should be a valid integer`."""
    if (count := error.error_count()) > MANY:
        return f"{count} values do not fit"
    said = []
    for fault in error.errors(include_url=False, include_context=False)[:SHOWN]:
        parts = [str(part) for part in fault["loc"] if "function-" not in str(part)]  # our own, in unions
        place, message = ".".join(parts), fault["msg"]
        if fault["type"] == "json_invalid":
            message = f"not valid JSON ({message.partition(': ')[2]})"
        elif fault["type"] == "int_parsing_size":
            message = "an integer beyond 64 bits is out of range"
        message = message[:1].lower() + message[1:]
        said.append(f'field "{place}": {message}' if place else message)
    return "; ".join(said)


class _Stop(Exception):
    """Ends a validation. Pydantic collects other errors, one for each value of an object."""


def _same(value: Any) -> Any:
    return value


def _stop(*_: Any) -> NoReturn:
    raise _Stop


def _retries(schema: Any) -> bool:
    parts = (
        schema if isinstance(schema, list | tuple) else schema.values() if isinstance(schema, dict) else ()
    )
    return (isinstance(schema, dict) and schema.get("type") in _RETRIES) or any(map(_retries, parts))


def _guarded(schema: Any, stops: bool, forbids: bool = False) -> Any:
    """A copy of a schema that ends at the first fault of a list, and of an object if it `stops`.

    Its values pass a function of Python, so that the interpreter may switch to another thread there.
    """
    if isinstance(schema, list | tuple):
        return type(schema)(_guarded(each, stops, forbids) for each in schema)
    if not isinstance(schema, dict):
        return schema
    config = schema.get("config")
    if isinstance(config, dict):
        forbids = config.get("extra_fields_behavior") == "forbid"
    copy = {
        name: each if name in NO_SCHEMAS else _guarded(each, stops, forbids) for name, each in schema.items()
    }
    kind = copy.get("type")
    if kind in _LISTS:
        items = copy.get("items_schema")
        passing = [_passing(each) for each in items] if isinstance(items, list) else _passing(items)
        copy.update(fail_fast=True, items_schema=passing)
    elif kind == "dict":
        for part in ("keys_schema", "values_schema"):
            inner = _passing(copy.get(part))
            copy[part] = (
                core_schema.with_default_schema(inner, on_error="default", default_factory=_stop)
                if stops
                else inner
            )
    elif kind in ("model-fields", "typed-dict") and stops and forbids:
        unknown = core_schema.no_info_plain_validator_function(_stop)
        copy.update(extra_behavior="allow", extras_schema=unknown)
    return copy


def _passing(schema: Any) -> Any:
    return core_schema.no_info_after_validator_function(_same, schema or core_schema.any_schema())

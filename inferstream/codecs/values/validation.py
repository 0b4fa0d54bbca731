"""Validates JSON values by pydantic, so that a large wrong one costs little and a large right one holds nobody up."""

import gc
from collections.abc import Callable
from functools import cached_property
from typing import Any, NoReturn, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_core import SchemaValidator, core_schema

LARGE = 16 * 1024
"""Bytes of a text, or values of a list, from which validation ends early and lets other threads run."""

SHOWN = 5
"""Faults that an error names."""

MANY = 1000
"""Faults from which an error gives their number: pydantic takes 3 µs and 600 bytes to name each."""

_LISTS = ("list", "set", "frozenset", "tuple")
_RETRIES = ("union", "lax-or-strict", "function-wrap")
"""Schemas that may be right where a part of them is wrong."""
_NO_SCHEMAS = ("cls", "config", "ctx", "default", "expected", "metadata", "serialization")


class Validator:
    """The values of a type. Raises ValueError, which names the faults."""

    def __init__(self, adapter: TypeAdapter[Any]) -> None:
        self._adapter = adapter

    @cached_property
    def _large(self) -> SchemaValidator:
        schema = self._adapter.core_schema
        guarded = _guarded(schema, not _retries(schema))
        make: Any = SchemaValidator
        try:
            return cast(
                SchemaValidator, make(guarded, _use_prebuilt=False)
            )  # those of model classes have no guard
        except TypeError:  # of older releases, which have no prebuilt ones
            return SchemaValidator(guarded)

    def of_json(self, text: str | bytes) -> Any:
        large = len(text) > LARGE
        return _validated(self._large.validate_json if large else self._adapter.validate_json, text, large)

    def of_python(self, value: Any) -> Any:
        large = isinstance(value, list | dict) and len(value) > LARGE
        return _validated(
            self._large.validate_python if large else self._adapter.validate_python, value, large
        )


def _validated(validate: Callable[[Any], Any], value: Any, large: bool) -> Any:
    """Validate without the garbage collector if `large`: its runs take five times as long as the validation."""
    collects = large and gc.isenabled()
    if collects:
        gc.disable()
    try:
        return validate(value)
    except ValidationError as error:
        raise ValueError(faults(error)) from None
    except _Stop as error:
        raise ValueError(str(error)) from None
    finally:
        if collects:
            gc.enable()


def faults(error: ValidationError) -> str:
    """Each fault with its place: `field "age": input should be a valid integer`."""
    if (count := error.error_count()) > MANY:
        return f"{count} values do not fit"
    said = []
    for fault in error.errors(include_url=False, include_context=False)[:SHOWN]:
        place, message = ".".join(map(str, fault["loc"])), fault["msg"]
        if fault["type"] == "json_invalid":
            message = f"not valid JSON ({message.partition(': ')[2]})"
        elif fault["type"] == "int_parsing_size":
            message = "an integer beyond 64 bits is out of range"
        message = message[:1].lower() + message[1:]
        said.append(f'field "{place}": {message}' if place else message)
    return "; ".join(said)


def _same(value: Any) -> Any:
    return value


class _Stop(Exception):
    """Ends a validation. Pydantic collects other errors, one for each value of an object."""


def _wrong_value() -> NoReturn:
    raise _Stop("an object holds a value that does not fit")


def _wrong_field(_: Any) -> NoReturn:
    raise _Stop("an object holds a field that is not known")


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
        name: each if name in _NO_SCHEMAS else _guarded(each, stops, forbids) for name, each in schema.items()
    }
    kind = copy.get("type")
    if kind == "tuple":
        copy.update(fail_fast=True, items_schema=[_passing(each) for each in copy["items_schema"]])
    elif kind in _LISTS:
        copy.update(fail_fast=True, items_schema=_passing(copy.get("items_schema")))
    elif kind == "dict":
        keys, values = _passing(copy.get("keys_schema")), _passing(copy.get("values_schema"))
        if stops:
            keys, values = _stopping(keys), _stopping(values)
        copy.update(keys_schema=keys, values_schema=values)
    elif kind in ("model-fields", "typed-dict") and stops and forbids:
        copy.update(
            extra_behavior="allow", extras_schema=core_schema.no_info_plain_validator_function(_wrong_field)
        )
    return copy


def _passing(schema: Any) -> Any:
    return core_schema.no_info_after_validator_function(_same, schema or core_schema.any_schema())


def _stopping(schema: Any) -> Any:
    return core_schema.with_default_schema(schema, on_error="default", default_factory=_wrong_value)

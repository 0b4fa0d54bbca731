"""Validates JSON values by pydantic, so that a large wrong one costs little and a large right one holds nobody up."""

from functools import cached_property
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import SchemaValidator, core_schema

LARGE = 16 * 1024
"""Bytes of a text, or values of a list, from which validation ends early and lets other threads run."""

SHOWN = 5
"""Faults that an error names."""

MANY = 1000
"""Faults from which an error gives their number: pydantic takes 3 µs and 600 bytes to name each."""

_LISTS = ("list", "set", "frozenset", "tuple")
_NO_SCHEMAS = ("cls", "config", "ctx", "default", "expected", "metadata", "serialization")


class Validator:
    """The values of a type. Raises ValueError, which names the faults."""

    def __init__(self, adapter: TypeAdapter[Any]) -> None:
        self._adapter = adapter

    @cached_property
    def _large(self) -> SchemaValidator:
        """A list ends at its first fault, and a function of Python at each value lets the interpreter switch."""
        return SchemaValidator(_guarded(self._adapter.core_schema))

    def of_json(self, text: str | bytes) -> Any:
        try:
            if len(text) > LARGE:
                return self._large.validate_json(text)
            return self._adapter.validate_json(text)
        except ValidationError as error:
            raise ValueError(faults(error)) from None

    def of_python(self, value: Any) -> Any:
        try:
            if isinstance(value, list | dict) and len(value) > LARGE:
                return self._large.validate_python(value)
            return self._adapter.validate_python(value)
        except ValidationError as error:
            raise ValueError(faults(error)) from None


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


def _guarded(schema: Any) -> Any:
    """A copy of a schema whose lists end at their first fault, and whose values pass a function of Python."""
    if isinstance(schema, list):
        return [_guarded(each) for each in schema]
    if isinstance(schema, tuple):
        return tuple(_guarded(each) for each in schema)
    if not isinstance(schema, dict):
        return schema
    copy = {name: each if name in _NO_SCHEMAS else _guarded(each) for name, each in schema.items()}
    kind = copy.get("type")
    if kind in _LISTS:
        copy["fail_fast"] = True
        items = copy.get("items_schema")
        if kind == "tuple":
            copy["items_schema"] = [_passing(each) for each in items or ()]
        else:
            copy["items_schema"] = _passing(items)
    elif kind == "dict":
        for part in ("keys_schema", "values_schema"):
            copy[part] = _passing(copy.get(part))
    return copy


def _passing(schema: Any) -> Any:
    return core_schema.no_info_after_validator_function(_same, schema or core_schema.any_schema())

"""Schemas of pydantic that read and write JSON as all other values of a model are."""

import base64
import binascii
from collections.abc import Callable
from typing import Any

from pydantic_core import core_schema

NO_SCHEMAS = ("cls", "config", "ctx", "default", "expected", "metadata", "serialization")
"""Keys of a schema whose values are no schemas."""

_BYTES_SETTINGS = {"ser_json_bytes", "val_json_bytes"}


def adapted_schema(schema: Any, jsonable: Callable[[Any], Any], is_own: bool = False) -> Any:
    """A copy of a schema in which JSON holds bytes as base64, and `jsonable` makes JSON of values of any type.

    Bytes stay as they are if the author of a type has decided how JSON holds them (`is_own`).
    """
    if isinstance(schema, list | tuple):
        return type(schema)(adapted_schema(each, jsonable, is_own) for each in schema)
    if not isinstance(schema, dict):
        return schema
    kind = schema.get("type")
    if not isinstance(kind, str):  # fields by name
        return {name: adapted_schema(each, jsonable, is_own) for name, each in schema.items()}
    has_serialization = "serialization" in schema
    if kind == "any" and not has_serialization:
        return {**schema, "serialization": _written(jsonable)}
    if kind == "bytes" and not has_serialization and not is_own:
        return _base64(schema)
    is_own = is_own or has_serialization or not _BYTES_SETTINGS.isdisjoint(schema.get("config") or {})
    return {
        name: each if name in NO_SCHEMAS else adapted_schema(each, jsonable, is_own)
        for name, each in schema.items()
    }


def is_untyped(schema: Any) -> bool:
    """Whether values of a schema are plain lists and objects of values of any type."""
    kind = schema.get("type") if isinstance(schema, dict) and "serialization" not in schema else None
    if kind in ("dict", "list"):
        parts = ("keys_schema", "values_schema", "items_schema")
        return all(is_untyped(schema[part]) for part in parts if part in schema)
    return kind in ("any", "str")


def _written(function: Callable[[Any], Any]) -> Any:
    return core_schema.plain_serializer_function_ser_schema(function, when_used="json-unless-none")


def _base64(schema: Any) -> Any:
    read: Any = core_schema.json_or_python_schema(
        core_schema.no_info_before_validator_function(_bytes_of_json, schema), schema
    )
    read["serialization"] = _written(_text_of_bytes)
    return read


def _text_of_bytes(value: Any) -> str:
    return base64.b64encode(value).decode()


def _bytes_of_json(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return base64.b64decode(value.replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"not valid base64 ({error})") from None

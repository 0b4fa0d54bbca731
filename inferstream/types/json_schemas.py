"""Adapts pydantic schemas, so that they read and write JSON like the rest of a model's values."""

import base64
import binascii
from collections.abc import Callable
from typing import Any

from pydantic_core import core_schema

NO_SCHEMAS = ("cls", "config", "ctx", "default", "expected", "metadata", "serialization")
"""Schema keys whose values are not schemas."""

_BYTES_SETTINGS = {"ser_json_bytes", "val_json_bytes"}


def adapt_schema(schema: Any, jsonable: Callable[[Any], Any], is_own: bool = False) -> Any:
    """Copy a schema so that bytes are base64 in JSON, and `jsonable` converts values of type Any.

    Bytes keep their representation if the author of the type has chosen one (`is_own`).
    """
    if isinstance(schema, list | tuple):
        return type(schema)(adapt_schema(each, jsonable, is_own) for each in schema)
    if not isinstance(schema, dict):
        return schema
    kind = schema.get("type")
    if not isinstance(kind, str):
        return {name: adapt_schema(each, jsonable, is_own) for name, each in schema.items()}
    has_serialization = "serialization" in schema
    if kind == "any" and not has_serialization:
        return {**schema, "serialization": _serialize_with(jsonable)}
    if kind == "bytes" and not has_serialization and not is_own:
        return _base64(schema)
    is_own = is_own or has_serialization or not _BYTES_SETTINGS.isdisjoint(schema.get("config") or {})
    return {
        name: each if name in NO_SCHEMAS else adapt_schema(each, jsonable, is_own)
        for name, each in schema.items()
    }


def accepts_any_type(schema: Any) -> bool:
    """Whether the schema accepts only plain lists and objects with values of any type."""
    kind = schema.get("type") if isinstance(schema, dict) and "serialization" not in schema else None
    if kind in ("dict", "list"):
        parts = ("keys_schema", "values_schema", "items_schema")
        return all(accepts_any_type(schema[part]) for part in parts if part in schema)
    return kind in ("any", "str")


def _serialize_with(function: Callable[[Any], Any]) -> Any:
    return core_schema.plain_serializer_function_ser_schema(function, when_used="json-unless-none")


def _base64(schema: Any) -> Any:
    read: Any = core_schema.json_or_python_schema(
        core_schema.no_info_before_validator_function(_decode_base64, schema), schema
    )
    read["serialization"] = _serialize_with(_encode_base64)
    return read


def _encode_base64(value: Any) -> str:
    return base64.b64encode(value).decode()


def _decode_base64(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return base64.b64decode(value.replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"not valid base64 ({error})") from None

"""Schemas of text requests for the OpenAPI document."""

from typing import Any

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean", "default": False}
STRINGS: Schema = {"type": "array", "items": STRING}
COUNT: Schema = {"type": "integer", "minimum": 1}
POSITIVE: Schema = {"type": "number", "exclusiveMinimum": 0}
OBJECT_OR_LIST: Schema = {"type": ["object", "array"]}


def object_schema(required: tuple[str, ...], **properties: Schema) -> Schema:
    """Return the schema of an object."""
    return {"type": "object", "required": [*required], "properties": properties}

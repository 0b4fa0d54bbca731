"""JSON schemas for the `generate` endpoint, derived from a model's inputs."""

from collections.abc import Sequence
from typing import Any

import orjson

from inferstream.ext.values import OPTIONAL, SCHEMA, STREAM, parameter_of
from inferstream.types import MetadataTensor

Schema = dict[str, Any]

CODED: dict[str | None, Schema] = {
    "base64": {"type": "string", "contentEncoding": "base64"},
    "datetime": {"type": "string", "format": "date-time"},
    "image": {"type": "string", "contentEncoding": "base64", "contentMediaType": "image/*"},
    "json": {},
    "pd_json": {"type": ["object", "array"]},
}
"""Schemas of BYTES inputs by content type. Inputs with any other content type are strings."""

CHOICES, DEFAULT, DESCRIPTION, FORMAT, NULLABLE = "choices", "default", "description", "format", "nullable"
EXAMPLES = "examples"
"""Metadata parameters that describe an input in more detail than its tensor declaration."""

TIMES = {"date": "date", "time": "time"}


def flat_schema(inputs: Sequence[MetadataTensor], exact: bool) -> tuple[Schema, dict[str, Schema]]:
    """Return the schema of an object with these inputs as keys, and the components that it refers to.

    With `exact`, inputs that are not optional are required.
    """
    components: dict[str, Schema] = {}
    properties = {tensor.name: _property(tensor, components) for tensor in inputs}
    schema: Schema = {"type": "object", "properties": properties}
    required = [
        tensor.name
        for tensor in inputs
        if not parameter_of(tensor, OPTIONAL) and not parameter_of(tensor, STREAM)
    ]
    if exact and required:
        schema["required"] = required
    return schema, components


def _property(tensor: MetadataTensor, components: dict[str, Schema]) -> Schema:
    said = parameter_of(tensor, SCHEMA)
    schema = (
        _wrap_in_arrays(tensor, _element(tensor))
        if said is None
        else _hoist_definitions(tensor.name, said, components)
    )
    if (default := parameter_of(tensor, DEFAULT)) is not None:
        schema["default"] = orjson.loads(default)
    if parameter_of(tensor, NULLABLE) or (default is not None and schema["default"] is None):
        schema = _or_null(schema)
    if (description := parameter_of(tensor, DESCRIPTION)) is not None:
        schema["description"] = description
    if parameter_of(tensor, STREAM):
        schema["x-stream"] = True
    return schema


def _element(tensor: MetadataTensor) -> Schema:
    datatype = tensor.datatype
    if datatype == "BYTES":
        content = None if tensor.parameters is None else tensor.parameters.content_type
        schema = dict(CODED.get(content, {"type": "string"}))
        if content == "datetime":
            schema["format"] = TIMES.get(parameter_of(tensor, FORMAT) or "", "date-time")
    else:
        kind = "boolean" if datatype == "BOOL" else "integer" if "INT" in datatype else "number"
        schema = {"type": kind}
    if (choices := parameter_of(tensor, CHOICES)) is not None:
        schema["enum"] = orjson.loads(choices)
    return schema


def _wrap_in_arrays(tensor: MetadataTensor, schema: Schema) -> Schema:
    """Wrap an element in an array for each dimension. The shape [1] is a single value."""
    if tensor.shape == [1]:
        return schema
    for size in reversed(tensor.shape):
        schema = {"type": "array", "items": schema}
        if size >= 0:
            schema |= {"minItems": size, "maxItems": size}
    return schema


def _hoist_definitions(name: str, text: str, components: dict[str, Schema]) -> Schema:
    """Return a pydantic schema whose definitions are moved to the components of the document."""
    schema: Schema = orjson.loads(text.replace('"#/$defs/', f'"#/components/schemas/{name}.'))
    components.update({f"{name}.{key}": definition for key, definition in schema.pop("$defs", {}).items()})
    return schema


def _or_null(schema: Schema) -> Schema:
    kind = schema.get("type")
    if isinstance(kind, str) and "enum" not in schema:
        return {**schema, "type": [kind, "null"]}
    default = {"default": schema.pop("default")} if "default" in schema else {}
    return {"anyOf": [schema, {"type": "null"}], **default}

"""JSON schemas of the flat objects that `generate` takes, by what a model's inputs say of themselves."""

from collections.abc import Sequence
from typing import Any

import orjson

from inferstream.ext.values import OPTIONAL, SCHEMA, STREAM, parameter_of

from .....types import MetadataTensor

Schema = dict[str, Any]

CODED: dict[str | None, Schema] = {
    "base64": {"type": "string", "contentEncoding": "base64"},
    "datetime": {"type": "string", "format": "date-time"},
    "image": {"type": "string", "contentEncoding": "base64", "contentMediaType": "image/*"},
    "json": {},
    "pd_json": {"type": ["object", "array"]},
}
"""Schemas of BYTES by content type. Others are texts."""

CHOICES, DEFAULT, DESCRIPTION, FORMAT, NULLABLE = "choices", "default", "description", "format", "nullable"
"""Parameters by which an input says of itself what its tensor cannot."""

TIMES = {"date": "date", "time": "time"}


def flat_schema(inputs: Sequence[MetadataTensor], exact: bool) -> tuple[Schema, dict[str, Schema]]:
    """The schema of an object whose keys are these inputs, and the components that it refers to.

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
    schema = _shaped(tensor, _element(tensor)) if said is None else _hoisted(tensor.name, said, components)
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


def _shaped(tensor: MetadataTensor, schema: Schema) -> Schema:
    """Lists of an element, one inside the other for each dimension; a shape [1] is a single value."""
    if tensor.shape == [1]:
        return schema
    for size in reversed(tensor.shape):
        schema = {"type": "array", "items": schema}
        if size >= 0:
            schema |= {"minItems": size, "maxItems": size}
    return schema


def _hoisted(name: str, text: str, components: dict[str, Schema]) -> Schema:
    """A schema of pydantic's, whose definitions become components of the document."""
    schema: Schema = orjson.loads(text.replace('"#/$defs/', f'"#/components/schemas/{name}.'))
    components.update({f"{name}.{key}": definition for key, definition in schema.pop("$defs", {}).items()})
    return schema


def _or_null(schema: Schema) -> Schema:
    kind = schema.get("type")
    if isinstance(kind, str) and "enum" not in schema:
        return {**schema, "type": [kind, "null"]}
    default = {"default": schema.pop("default")} if "default" in schema else {}
    return {"anyOf": [schema, {"type": "null"}], **default}

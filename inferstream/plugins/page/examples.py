"""Generated example requests that match a model's inputs."""

from collections.abc import Sequence
from math import prod
from typing import Any

import orjson

from inferstream.ext.values import OPTIONAL, SCHEMA, parameter_of
from inferstream.types import MetadataTensor

from .flat_schema import CHOICES, DEFAULT, EXAMPLES, FORMAT

Schema = dict[str, Any]

MAX_VALUES = 64
"""Maximum number of values in an example, regardless of the shape."""

DEEPEST = 6
"""Maximum depth of an example, because a schema can be recursive."""

CODED = {"base64": "dGV4dA==", "image": "iVBORw0KGgo=", "datetime": "2000-01-01T00:00:00"}
"""Example values by content type."""

TIMES = {"date": "2000-01-01", "time": "12:00:00"}

DOCUMENTS = ("json", "pd_json")
"""Content types with arbitrary JSON values."""


def example_arguments(inputs: Sequence[MetadataTensor]) -> dict[str, Any]:
    """Return an object with a value for each required argument, or for the first argument if all are optional."""
    needed = [tensor for tensor in inputs if not parameter_of(tensor, OPTIONAL)] or inputs[:1]
    rows = {tensor.name: _row(tensor) for tensor in needed}
    return {
        tensor.name: _nest(_value(tensor), tensor.shape) if (row := rows[tensor.name]) is None else [row]
        for tensor in needed
    }


def example_request(inputs: Sequence[MetadataTensor]) -> dict[str, Any]:
    """Return a V2 request with all inputs that are required or have a default, or with the first input."""
    tensors = []
    shown = [
        each for each in inputs if not parameter_of(each, OPTIONAL) or parameter_of(each, DEFAULT) is not None
    ]
    for tensor in shown or inputs[:1]:
        value, shape = _value(tensor), [1 if size == -1 else size for size in tensor.shape]
        if isinstance(value, dict | list):
            value = orjson.dumps(value).decode()
        tensors.append(
            {
                "name": tensor.name,
                "shape": shape,
                "datatype": tensor.datatype,
                "data": [value] * min(prod(shape), MAX_VALUES) if (row := _row(tensor)) is None else row,
            }
        )
    return {"inputs": tensors}


def _json(tensor: MetadataTensor, parameter: str) -> Any:
    """Parse a parameter as JSON. Returns None if it is missing or invalid."""
    said = parameter_of(tensor, parameter)
    try:
        return orjson.loads(said) if isinstance(said, str) else None
    except orjson.JSONDecodeError:
        return None


def _row(tensor: MetadataTensor) -> list[Any] | None:
    """Return an example row of a matrix, if its metadata contain one."""
    known = _json(tensor, EXAMPLES)
    return known[0] if isinstance(known, list) and known and isinstance(known[0], list) else None


def _value(tensor: MetadataTensor) -> Any:
    """Return an example of one element, or of the whole value for JSON content types."""
    default, choices = _json(tensor, DEFAULT), _json(tensor, CHOICES)
    content = None if tensor.parameters is None else tensor.parameters.content_type
    known = _json(tensor, EXAMPLES)
    if isinstance(known, list) and known and not isinstance(known[0], list):
        return known[0]
    if content in DOCUMENTS:
        return default if default is not None else _value_of_schema(_json(tensor, SCHEMA) or {})
    if default is not None and not isinstance(default, list | dict):
        return default
    if isinstance(choices, list) and choices:
        return choices[0]
    if content in CODED:
        return TIMES.get(parameter_of(tensor, FORMAT), CODED[content])
    if tensor.datatype == "BYTES":
        return "text"
    return True if tensor.datatype == "BOOL" else _example_number(_json(tensor, SCHEMA) or {})


def _example_number(schema: Schema) -> Any:
    """Return a number within the bounds of a schema, if they are simple."""
    if "minimum" in schema:
        return schema["minimum"]
    low, high = schema.get("exclusiveMinimum"), schema.get("maximum", schema.get("exclusiveMaximum"))
    if low is not None:
        return low + 1 if high is None or low + 1 < high else (low + high) / 2
    return min(0, high - 1) if high is not None else 0


def _value_of_schema(schema: Schema, root: Schema | None = None, depth: int = 0) -> Any:
    """Return a small value that matches a JSON schema, with its required properties."""
    root = root or schema
    if isinstance(reference := schema.get("$ref"), str):
        target = root.get("$defs", {}).get(reference.rsplit("/", 1)[-1])
        schema = target if isinstance(target, dict) else {}
    for key in ("default", "const"):
        if key in schema:
            return schema[key]
    if isinstance(examples := schema.get("examples"), list) and examples:
        return examples[0]
    if schema.get("enum"):
        return schema["enum"][0]
    kind, options = schema.get("type", "object"), schema.get("anyOf") or schema.get("oneOf")
    if depth > DEEPEST and (options or kind == "object"):
        return None
    if options:
        return _value_of_schema(options[0], root, depth + 1)
    if kind == "object":
        properties = schema.get("properties", {})
        needed = [name for name in schema.get("required", ()) if name in properties]
        return {name: _value_of_schema(properties[name], root, depth + 1) for name in needed}
    if kind in ("integer", "number"):
        return _example_number(schema)
    return {"string": "text", "boolean": True, "array": []}.get(kind)


def _nest(value: Any, shape: Sequence[int]) -> Any:
    """Return the value, nested in lists of the declared shape. Long dimensions are truncated."""
    if list(shape) == [1]:
        return value
    for size in reversed(shape):
        value = [value] * (1 if size == -1 else min(size, MAX_VALUES))
    return value

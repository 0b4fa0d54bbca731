"""Examples of requests to a model, which its inputs allow."""

from collections.abc import Sequence
from math import prod
from typing import Any

import orjson

from inferstream.ext.values import OPTIONAL, SCHEMA, parameter_of

from .....types import MetadataTensor
from .flat_schema import CHOICES, DEFAULT, FORMAT

Schema = dict[str, Any]

MOST = 64
"""Values of an example, however large the shape is."""

DEEPEST = 6
"""Levels of an example, because a schema may contain itself."""

CODED = {"base64": "dGV4dA==", "image": "iVBORw0KGgo=", "datetime": "2000-01-01T00:00:00"}
"""Texts that codecs can read, by content type."""

TIMES = {"date": "2000-01-01", "time": "12:00:00"}

DOCUMENTS = ("json", "pd_json")
"""Content types whose values are JSON of any form."""


def example_arguments(inputs: Sequence[MetadataTensor]) -> dict[str, Any]:
    """A flat object with a value of each argument that has no default, or of the first if all may be left out."""
    needed = [tensor for tensor in inputs if not parameter_of(tensor, OPTIONAL)] or inputs[:1]
    return {tensor.name: _nested(_value(tensor), tensor.shape) for tensor in needed}


def example_request(inputs: Sequence[MetadataTensor]) -> dict[str, Any]:
    """A V2 request with each input that has to be there or has a default, or with the first."""
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
                "data": [value] * min(prod(shape), MOST),
            }
        )
    return {"inputs": tensors}


def _json(tensor: MetadataTensor, parameter: str) -> Any:
    """A parameter that holds JSON; None without it, or if its author wrote something else there."""
    said = parameter_of(tensor, parameter)
    try:
        return orjson.loads(said) if isinstance(said, str) else None
    except orjson.JSONDecodeError:
        return None


def _value(tensor: MetadataTensor) -> Any:
    """An example of one element; of JSON the whole value."""
    default, choices = _json(tensor, DEFAULT), _json(tensor, CHOICES)
    content = None if tensor.parameters is None else tensor.parameters.content_type
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
    return True if tensor.datatype == "BOOL" else _least(_json(tensor, SCHEMA) or {})


def _least(schema: Schema) -> Any:
    """A number that obeys the bounds of a schema, if they are simple."""
    if "minimum" in schema:
        return schema["minimum"]
    low, high = schema.get("exclusiveMinimum"), schema.get("maximum", schema.get("exclusiveMaximum"))
    if low is not None:
        return low + 1 if high is None or low + 1 < high else (low + high) / 2
    return min(0, high - 1) if high is not None else 0


def _value_of_schema(schema: Schema, root: Schema | None = None, depth: int = 0) -> Any:
    """A small value of a JSON schema, with its required properties."""
    if depth > DEEPEST:
        return None
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
    if options := schema.get("anyOf") or schema.get("oneOf"):
        return _value_of_schema(options[0], root, depth + 1)
    kind = schema.get("type", "object")
    if kind == "object":
        properties = schema.get("properties", {})
        needed = [name for name in schema.get("required", ()) if name in properties]
        return {name: _value_of_schema(properties[name], root, depth + 1) for name in needed}
    if kind in ("integer", "number"):
        return _least(schema)
    return {"string": "text", "boolean": True, "array": []}.get(kind)


def _nested(value: Any, shape: Sequence[int]) -> Any:
    """The value alone, or in lists of a declared shape; the lists of an example are short."""
    if list(shape) == [1]:
        return value
    for size in reversed(shape):
        value = [value] * (1 if size == -1 else min(size, MOST))
    return value

"""Writes typed RPCs as a `.proto` file, with metadata of each field as comments."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from ..types import MetadataTensor
from .typed import DTYPES, TENSOR, Field, Method
from .typed_files import TENSOR_FIELDS

FORMS = {
    "datetime": "ISO 8601.",
    "image": "An image file.",
    "json": "JSON.",
    "pd_json": "A data frame as JSON: an object of columns, or a list of rows.",
}
"""Descriptions of field contents, by content type."""


def write_proto(methods: Sequence[Method], removed: Mapping[str, Mapping[str, int]], title: str) -> str:
    """Return the contents of the file. `removed` maps models to their removed arguments and field numbers."""
    first = methods[0]
    parts = [f'{_comment([title], "")}syntax = "proto3";\n']
    if first.package:
        parts.append(f"package {first.package};\n")
    parts.append(f'option go_package = "{first.go_package}";\n')
    methods = sorted(methods, key=lambda method: method.name)
    for service in sorted({method.service for method in methods}):
        parts.append("".join(_service([method for method in methods if method.service == service])))
    for method in methods:
        request, response = method.messages
        parts.append(_message(request, method.request, removed.get(method.model, {}), method.stream))
        parts.append(_message(response, method.response, {}, None))
    if any(method.needs_tensors for method in methods):
        parts.append(_tensor())
    return "\n".join(parts)


def _service(methods: Sequence[Method]) -> Iterator[str]:
    yield f"service {methods[0].service.rpartition('.')[2]} {{\n"
    for index, method in enumerate(methods):
        request, response = method.messages
        taken = f"stream {request}" if method.stream is not None else request
        given = f"stream {response}" if method.streams else response
        yield "\n" if index and method.doc else ""
        yield _comment(method.doc.splitlines(), "  ")
        yield f"  rpc {method.name}({taken}) returns ({given});\n"
    yield "}\n"


def _message(name: str, fields: Sequence[Field], removed: Mapping[str, int], stream: Field | None) -> str:
    lines = []
    if removed:
        names = ", ".join(f'"{each}"' for each in sorted(removed))
        lines.append(f"  reserved {', '.join(map(str, sorted(removed.values())))};\n  reserved {names};\n")
    for field in fields:
        lines.append(_comment(_describe_field(field, field is stream), "  "))
        lines.append(f"  {field.label}{field.type} {field.name} = {field.number};\n")
    return f"message {name} {{\n{''.join(lines)}}}\n" if lines else f"message {name} {{}}\n"


def _tensor() -> str:
    lines = ["// An array: its values in row-major order, little endian.\n", f"message {TENSOR} {{\n"]
    for number, (label, kind, name) in enumerate(TENSOR_FIELDS, start=1):
        if name == "dtype":
            lines.append(_comment([f"One of {', '.join(sorted(DTYPES.values()))}."], "  "))
        lines.append(f"  {label + ' ' if label else ''}{kind} {name} = {number};\n")
    return f"{''.join(lines)}}}\n"


def _describe_field(field: Field, later: bool) -> Iterator[str]:
    """Yield comments for a field: its description, and constraints that its type does not express."""
    facts = _parameters(field.tensor)
    if facts.get("description"):
        yield from str(facts["description"]).splitlines()
    if field.is_tensor:
        sizes = orjson.loads(facts["dimensions"]) if "dimensions" in facts else None
        shape = "any shape" if sizes is None else f"shape [{', '.join(_size(size) for size in sizes)}]"
        yield f'dtype "{DTYPES[field.tensor.datatype]}", {shape}.'
    if form := FORMS.get(facts.get("content_type", "")):
        yield form
    if "schema" in facts:
        yield f"JSON schema: {facts['schema']}"
    if "choices" in facts:
        yield f"One of {', '.join(orjson.dumps(each).decode() for each in orjson.loads(facts['choices']))}."
    if later:
        yield "Requests after the first hold this field alone."
    elif "default" in facts:
        yield f"Default: {facts['default']}"
    elif not field.required:
        yield "Optional."


def _parameters(tensor: MetadataTensor) -> dict[str, Any]:
    return {} if tensor.parameters is None else dict(tensor.parameters.items())


def _size(size: object) -> str:
    return "any" if size in (None, -1) else str(size)


def _comment(lines: Iterable[str], indent: str) -> str:
    """Return the lines as `//` comments.

    Unprintable characters become spaces, because they could break a line or be invalid for protoc.
    """
    shown = ("".join(each if each.isprintable() else " " for each in line).rstrip() for line in lines)
    return "".join(f"{indent}// {line}".rstrip() + "\n" for line in shown)

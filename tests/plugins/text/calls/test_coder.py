import json
from typing import Any

import pytest

from inferstream.plugins.text.calls.coder import TAGS, TagParser

PROPERTIES = {"s": {"type": "string"}, "n": {"type": "integer"}, "b": {"type": "boolean"}}
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"properties": PROPERTIES}}}]


def arguments(tools, **parameters: str) -> str:
    parser = TagParser(TAGS["qwen_coder"], tools)
    inner = "".join(f"<parameter={name}>\n{text}\n</parameter>\n" for name, text in parameters.items())
    deltas = parser.push(f"<tool_call>\n<function=f>\n{inner}</function>\n</tool_call>")
    assert deltas[0] == ("call", "f")
    assert parser.finish() == []
    return deltas[1].text


def test_parameters_have_schema_types() -> None:
    assert arguments(TOOLS, s="1\n", n="1", b="True") == '{"s": "1\\n", "n": 1, "b": true}'


def test_parameters_without_matching_schema_are_strings() -> None:
    assert arguments(TOOLS, n="one", x="1") == '{"n": "one", "x": "1"}'
    assert arguments([{"function": 7}], n="1") == '{"n": "1"}'
    assert arguments(TOOLS, n="NaN") == '{"n": "NaN"}'


FILTER = {"type": "object", "properties": {"q": {"type": "integer"}}}
REFERRED = {"$ref": "#/$defs/Filter"}


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "integer"}, "7", 7),
        ({"type": ["integer", "null"]}, "7", 7),
        ({"type": ["integer", "null"]}, "null", None),
        ({"type": ["string", "null"]}, "7", "7"),
        ({"type": ["string", "null"]}, "null", None),
        ({"type": "string", "nullable": True}, "None", None),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "7", 7),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "7", "7"),
        ({"anyOf": [{"type": "string"}, {"type": "array"}]}, '["a"]', ["a"]),
        ({"anyOf": [{"type": "string"}, {"type": "array"}]}, '{"a": 1}', '{"a": 1}'),
        ({"oneOf": [{"type": "string"}, {"type": "number"}]}, "7", 7),
        ({"oneOf": [{"type": "boolean"}, {"type": "null"}]}, "True", True),
        ({"allOf": [REFERRED]}, '{"q": 1}', {"q": 1}),
        (REFERRED, '{"q": 1}', {"q": 1}),
        (REFERRED, '{"q": "a\nb"}', {"q": "a\nb"}),
        ({"$ref": "#/$defs/Maybe"}, "null", None),
        ({"$ref": "#/$defs/Circle"}, "7", "7"),
        ({"$ref": "#/$defs/Absent"}, "7", "7"),
        ({"$ref": "https://example.com/schema"}, "7", "7"),
        ({"enum": [1, 2]}, "2", 2),
        ({"enum": ["1", "2"]}, "2", "2"),
        ({"type": "number"}, "7.5", 7.5),
        ({}, "7", "7"),
        (True, "7", "7"),
        ({"type": 7, "anyOf": 7, "enum": 7}, "x", "x"),
    ],
)
def test_parameter_type_is_allowed_by_schema(schema: Any, text: str, value: Any) -> None:
    maybe = {"anyOf": [REFERRED, {"type": "null"}]}
    defined = {"Filter": FILTER, "Maybe": maybe, "Circle": {"anyOf": [{"$ref": "#/$defs/Circle"}]}}
    parameters = {"properties": {"p": schema}, "$defs": defined}
    written = arguments([{"type": "function", "function": {"name": "f", "parameters": parameters}}], p=text)
    found = json.loads(written)["p"]
    assert (found, type(found)) == (value, type(value))


def test_call_without_parameters_has_empty_object() -> None:
    assert arguments(TOOLS) == "{}"

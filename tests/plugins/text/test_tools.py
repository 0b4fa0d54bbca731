import json
from typing import Any

import pytest

from inferstream.errors import InvalidOutput, InvalidRequest
from inferstream.plugins.text.chat import build_plain_prompt
from inferstream.plugins.text.fields import Fields
from inferstream.plugins.text.interface import TextInterface
from inferstream.plugins.text.tools import parse_arguments, read_tools
from inferstream.types import MetadataTensor

TOOLS = [{"type": "function", "function": {"name": name}} for name in ("a", "b")]


def interface(*extras: str) -> TextInterface:
    declared = {name: MetadataTensor(name=name, datatype="BYTES", shape=[1]) for name in extras}
    return TextInterface(
        None,
        declared,
        {},
        build_plain_prompt,
        generates=True,
        embeds=False,
        logprobs=False,
        streams=True,
        listed=True,
    )


def read(*extras: str, **fields: object):
    inputs, parameters = read_tools(Fields(fields), interface(*extras))
    return {name: json.loads(values[0]) for name, values in inputs.items()}, parameters


def refused(*extras: str, **fields: object) -> Any:
    with pytest.raises(InvalidRequest) as raised:
        read_tools(Fields(fields), interface(*extras))
    return raised.value.detail[0]["loc"]


def test_tools_are_an_input_and_choice_is_a_parameter():
    assert read("tools", tools=TOOLS) == ({"tools": TOOLS}, {})
    assert read("tools", tools=TOOLS, tool_choice="required", parallel_tool_calls=False) == (
        {"tools": TOOLS},
        {"tool_choice": "required", "parallel_tool_calls": False},
    )


def test_chosen_function_is_a_json_parameter():
    choice = {"type": "function", "function": {"name": "b"}}
    inputs, parameters = read("tools", tools=TOOLS, tool_choice=choice)
    assert inputs == {"tools": TOOLS}
    assert json.loads(parameters["tool_choice"]) == choice


def test_disallowed_tools_are_dropped():
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": TOOLS[1:]}}
    assert read("tools", tools=TOOLS, tool_choice=choice) == (
        {"tools": TOOLS[1:]},
        {"tool_choice": "required"},
    )


@pytest.mark.parametrize("fields", [{}, {"tools": []}, {"tools": None, "tool_choice": "auto"}])
def test_request_without_tools_has_no_tool_inputs(fields: dict):
    assert read(**fields) == ({}, {})


def test_disabled_tools_do_not_reach_model():
    assert read("tools", tools=TOOLS, tool_choice="none") == ({}, {})
    assert read(tools=TOOLS, tool_choice="none") == ({}, {})  # a model without tools calls none either


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"tools": {}}, "tools"),
        ({"tools": [3]}, "tools[0]"),
        ({"tools": [{}]}, "tools[0].type"),
        ({"tools": [{"type": "custom"}]}, "tools[0].type"),
        ({"tools": [*TOOLS, {"type": "function", "function": {}}]}, "tools[2].function.name"),
        ({"tools": TOOLS, "tool_choice": "perhaps"}, "tool_choice"),
        ({"tools": TOOLS, "tool_choice": 3}, "tool_choice"),
        ({"tools": TOOLS, "tool_choice": {"type": "mcp"}}, "tool_choice.type"),
        ({"tools": TOOLS, "tool_choice": {"type": "function"}}, "tool_choice.function"),
        ({"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "c"}}}, "tool_choice"),
        ({"tools": TOOLS, "parallel_tool_calls": "no"}, "parallel_tool_calls"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"functions": []}, "functions"),
        ({"response_format": "json"}, "response_format"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, "response_format.json_schema.name"),
    ],
)
def test_invalid_field_is_named(fields: dict, field: str):
    assert refused("tools", "response_format", **fields) == [field]


def test_undeclared_input_is_not_sent():
    assert refused("response_format", tools=TOOLS) == ["tools"]
    assert refused("tools", response_format={"type": "json_object"}) == ["response_format"]


def test_format_is_passed_unchanged():
    format = {
        "type": "json_schema",
        "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True},
    }
    assert read("response_format", response_format=format) == ({"response_format": format}, {})
    assert read(response_format={"type": "text"}) == ({}, {})


@pytest.mark.parametrize(
    "fields",
    [
        {"response_format": {"type": "json_object", "schema": {"type": "object"}}},  # llama.cpp
        {
            "response_format": {"type": "json_object", "value": {"type": "object"}}
        },  # TGI, and Hugging Face's client
        {"response_format": {"type": "json", "value": {"type": "object"}}},
        {"response_format": {"type": "json_schema", "schema": {"type": "object"}}},
        {"json_schema": {"type": "object"}},
        {"guided_json": {"type": "object"}},
    ],
    ids=str,
)
def test_schema_field_has_several_names(fields: dict[str, Any]) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "output", "schema": {"type": "object"}}}
    assert read("response_format", **fields) == ({"response_format": form}, {})


def test_invalid_format_of_other_server_is_named() -> None:
    regex = {"type": "regex", "regex": "a+"}
    for fields in ({"regex": "a+"}, {"response_format": {"type": "regex", "value": "a+"}}):
        assert read("response_format", **fields) == ({"response_format": regex}, {})
    assert refused("response_format", response_format={"type": "json_object", "value": 3}) == [
        "response_format.value"
    ]
    assert refused("response_format", response_format={"type": "json"}) == ["response_format.value"]
    assert refused("response_format", json_schema=3) == ["json_schema"]


def test_truncated_arguments_are_empty_and_others_must_be_objects():
    def call(arguments: str):
        return {"function": {"name": "a", "arguments": arguments}}

    assert parse_arguments(call('{"n": 1}'), cut=True) == {"n": 1}
    assert parse_arguments(call('{"n": '), cut=True) == {}
    assert parse_arguments(call("")) == {}
    for arguments, cut in (('{"n": ', False), ("[]", True)):
        with pytest.raises(InvalidOutput, match="no JSON object"):
            parse_arguments(call(arguments), cut)

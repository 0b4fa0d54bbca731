import base64

import pytest

from inferstream.errors import InvalidRequest
from inferstream.plugins.text.fields import Fields
from inferstream.plugins.text.openai.response_items import (
    read_choice,
    read_format,
    read_functions,
    read_input,
    read_metadata,
)

IMAGE = f"data:image/png;base64,{base64.b64encode(b'pixel').decode()}"
SCHEMA = {"type": "object"}
KNOWN = {"fc_1": {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}}


def messages(input: object, **fields: object) -> list:
    return read_input(Fields({"input": input, **fields}), [], KNOWN.get).messages


def test_text_is_a_user_message():
    assert messages("hi", instructions="Be kind.") == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "hi"},
    ]


def test_message_has_only_role_and_content():
    item = {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant"}
    parts = [{"type": "output_text", "text": "a"}, {"type": "refusal", "refusal": "b"}]
    assert messages([{**item, "content": parts}]) == [{"role": "assistant", "content": "ab"}]


def test_calls_belong_to_previous_assistant_message():
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    made = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    user = {"role": "user", "content": "u"}
    assert messages([user, call, call]) == [
        user,
        {"role": "assistant", "content": None, "tool_calls": [made, made]},
    ]
    assert messages([call, user, call])[0] == {"role": "assistant", "content": None, "tool_calls": [made]}


def test_output_can_contain_image():
    output = [{"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": IMAGE}]
    item = {"type": "function_call_output", "call_id": "c", "output": output}
    chat = read_input(Fields({"input": [item]}), [], KNOWN.get)
    parts = [{"type": "text", "text": "see"}, {"type": "image"}]
    assert chat.messages == [{"role": "tool", "tool_call_id": "c", "content": parts}]
    assert chat.images == [b"pixel"]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({}, "input"),
        ({"input": []}, "input"),
        ({"input": {}}, "input"),
        ({"input": ["x"]}, "input[0]"),
        ({"input": [{"type": 3}]}, "input[0].type"),
        ({"input": [{"type": "compaction", "encrypted_content": "x"}]}, "input[0].type"),
        ({"input": [{"type": "function_call", "name": "f", "arguments": "{}"}]}, "input[0].call_id"),
        ({"input": [{"type": "item_reference", "id": "fc_2"}]}, "input[0].id"),
        ({"input": [{"content": "x"}]}, "input[0].role"),
        ({"input": [{"role": "user", "content": 3}]}, "input[0].content"),
        ({"input": [{"role": "user", "content": [{"text": "x"}]}]}, "input[0].content[0].type"),
        (
            {"input": [{"type": "function_call_output", "call_id": "c", "output": [{"type": "x"}]}]},
            "input[0].output[0].type",
        ),
        ({"input": "x", "instructions": ["y"]}, "instructions"),
    ],
)
def test_invalid_item_is_named(fields: dict, field: str):
    with pytest.raises(InvalidRequest) as raised:
        read_input(Fields(fields), [], KNOWN.get)
    assert raised.value.detail[0]["loc"] == [field]


def test_tools_and_choices_convert_to_chat_format():
    tool = {"type": "function", "name": "f", "parameters": SCHEMA, "strict": True}
    inner = {"name": "f", "parameters": SCHEMA, "strict": True}
    assert read_functions(Fields({"tools": [tool]})) == ([{"type": "function", "function": inner}], {})
    assert read_choice(Fields({"tool_choice": "auto"})) == "auto"
    assert read_choice(Fields({"tool_choice": {"type": "function", "name": "f"}})) == {
        "type": "function",
        "function": {"name": "f"},
    }


@pytest.mark.parametrize(
    ("tool", "field"),
    [
        ({}, "tools[0].name"),
        ({"name": "p", "format": "lark"}, "tools[0].format"),
        ({"name": "p", "format": {"type": "json"}}, "tools[0].format.type"),
        ({"name": "p", "format": {"type": "grammar", "syntax": "ebnf"}}, "tools[0].format.syntax"),
        ({"name": "p", "format": {"type": "grammar", "syntax": "lark"}}, "tools[0].format.definition"),
    ],
)
def test_invalid_custom_tool_is_named(tool: dict, field: str):
    with pytest.raises(InvalidRequest) as raised:
        read_functions(Fields({"tools": [{"type": "custom", **tool}]}))
    assert raised.value.detail[0]["loc"] == [field]


@pytest.mark.parametrize("kind", ["web_search", "file_search", "mcp"])
def test_unsupported_tool_type_is_dropped_and_cannot_be_chosen(kind: str):
    assert read_functions(Fields({"tools": [{"type": kind}]})) == ([], {})
    with pytest.raises(InvalidRequest) as raised:
        read_choice(Fields({"tool_choice": {"type": kind}}))
    assert raised.value.detail[0]["loc"] == ["tool_choice.type"]


def test_schema_converts_to_chat_format():
    format = read_format(Fields({"text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}}}))
    assert format.get("json_schema") == {"name": "n", "schema": SCHEMA}
    assert read_format(Fields({"text": {"verbosity": "low"}})) is None
    assert read_format(Fields({})) is None


def test_metadata_values_are_strings():
    assert read_metadata(Fields({})) == {}
    assert read_metadata(Fields({"metadata": {"a": "b"}})) == {"a": "b"}
    for wrong in ([], {"a": 1}):
        with pytest.raises(InvalidRequest):
            read_metadata(Fields({"metadata": wrong}))


def test_namespace_prefixes_its_functions():
    tools = [
        {"type": "namespace", "name": each, "tools": [{"type": "function", "name": "f"}]}
        for each in ("a", "b__")
    ]
    functions, names = read_functions(Fields({"tools": tools}))
    assert [each["function"]["name"] for each in functions] == ["a__f", "b__f"]
    assert names == {"a__f": ("a", "f", False), "b__f": ("b__", "f", False)}
    with pytest.raises(InvalidRequest) as raised:
        read_functions(
            Fields({"tools": [{"type": "namespace", "name": "a", "tools": [{"type": "function"}]}]})
        )
    assert raised.value.detail[0]["loc"] == ["tools[0].tools[0].name"]


def test_server_items_are_dropped_and_client_items_are_calls():
    hosted = [
        {"type": kind}
        for kind in ("reasoning", "web_search_call", "mcp_list_tools", "local_shell_call_output")
    ]
    custom = {"type": "custom_tool_call", "call_id": "c", "name": "patch", "namespace": "n", "input": "p"}
    output = {"type": "custom_tool_call_output", "call_id": "c", "output": "done"}
    call, result = messages([*hosted, custom, output])
    assert call["tool_calls"][0]["function"] == {"name": "n__patch", "arguments": '{"input":"p"}'}
    assert result == {"role": "tool", "tool_call_id": "c", "content": "done"}


def test_item_can_be_referenced_by_id():
    reference = {"type": "item_reference", "id": "fc_1"}
    assert messages([reference]) == messages([KNOWN["fc_1"]])

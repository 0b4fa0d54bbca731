"""Anthropic's messages as chat messages, and what is refused by the name of its block."""

import base64
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest

from inferstream import ModelSettings, Settings, Token, Usage
from inferstream.errors import InvalidRequest, ModelNotFound, Overloaded, Unsupported
from inferstream.ext.calls import Admission, ServerModels
from inferstream.ext.runtimes import Signature
from inferstream.ext.telemetry import Meters
from inferstream.plugins.text.anthropic.dialect import (
    MAX_COUNTED,
    Anthropic,
    TokenCount,
    read_generation,
    read_messages,
)
from inferstream.plugins.text.fields import Fields
from inferstream.plugins.text.generation import Generation
from inferstream.plugins.text.interface import TextInterface, build_text_interface
from inferstream.types import InferenceRequest, MetadataTensor
from tests.plugins.text.responses import responses_of

IMAGE = base64.b64encode(b"png").decode()


def chat(*content: Any, role: str = "user", **more: Any) -> Any:
    body = {"messages": [{"role": role, "content": [*content] if content else "hi"}], **more}
    return read_messages(Fields(body))


def test_texts_are_joined_and_system_prompt_is_first() -> None:
    blocks = ({"type": "text", "text": "a"}, {"type": "thinking"}, {"type": "text", "text": "b"})
    assert chat(
        *blocks, system=[{"type": "text", "text": "be"}, {"type": "text", "text": " brief"}]
    ).messages == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "ab"},
    ]
    assert chat(role="assistant").messages == [{"role": "assistant", "content": "hi"}]


def test_tool_calls_and_results_become_chat_messages() -> None:
    call = {"type": "tool_use", "id": "1", "name": "f", "input": {"x": 1}}
    (message,) = chat(call, role="assistant").messages
    assert message["content"] is None
    assert message["tool_calls"] == [
        {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}
    ]
    result = {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "5"}]}
    assert chat({"type": "text", "text": "so?"}, result).messages == [
        {"role": "tool", "tool_call_id": "1", "content": "5"},
        {"role": "user", "content": "so?"},
    ]


def test_image_keeps_position_among_parts() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": IMAGE}
    found = chat({"type": "text", "text": "see"}, {"type": "image", "source": source})
    assert found.messages == [
        {"role": "user", "content": [{"type": "text", "text": "see"}, {"type": "image"}]}
    ]
    assert found.images == [b"png"]


@pytest.mark.parametrize(
    ("block", "path"),
    [
        ({"type": "text"}, "messages[0].content[0].text"),
        ({"type": "video"}, "messages[0].content[0].type"),
        ({"type": "image"}, "messages[0].content[0].source"),
        (
            {"type": "image", "source": {"type": "url", "url": "http://x"}},
            "messages[0].content[0].source.type",
        ),
        ({"type": "image", "source": {"type": "base64", "data": "*"}}, "messages[0].content[0].source.data"),
        ({"type": "tool_use", "id": "1", "name": "f"}, "messages[0].content[0].input"),
        ({"type": "tool_result"}, "messages[0].content[0].tool_use_id"),
        (5, "messages[0].content[0]"),
    ],
)
def test_invalid_block_error_has_its_position(block: Any, path: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        chat(block)
    assert refused.value.detail[0]["loc"] == [path]


@pytest.mark.parametrize(
    ("message", "path"),
    [
        ({"content": "a"}, "messages[0].role"),
        ({"role": "tool", "content": "a"}, "messages[0].role"),
        ({"role": "user"}, "messages[0].content"),
        ({"role": "user", "content": 5}, "messages[0].content"),
    ],
)
def test_invalid_message_error_names_field(message: Any, path: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_messages(Fields({"messages": [message]}))
    assert refused.value.detail[0]["loc"] == [path]


def interface(*inputs: str) -> TextInterface:
    signature = Signature(
        inputs=tuple(MetadataTensor(name=name, datatype="BYTES", shape=[1]) for name in inputs),
        outputs=(MetadataTensor(name="text", datatype="BYTES", shape=[1]),),
        streams=True,
    )
    made = build_text_interface(signature, ModelSettings(name="m", implementation="m.M"))
    assert made is not None
    return made


def asked(**fields: Any) -> dict[str, Any]:
    """What a request for a message asks of a model that takes all: each input, and the parameters."""
    body = {"messages": [{"role": "user", "content": "hi"}], **fields}
    made = interface("messages", "tools", "response_format")
    generation, request = read_generation(Fields(body), made, 5)
    inputs = {tensor.name: orjson.loads(tensor.data.flat()[0]) for tensor in request.inputs}
    return inputs | {"parameters": generation.parameters}


TOOL = {"name": "f", "description": "Does.", "input_schema": {"type": "object"}}


@pytest.mark.parametrize(
    ("choice", "parameters"),
    [
        (None, {}),
        ({"type": "auto"}, {"tool_choice": "auto"}),
        ({"type": "any"}, {"tool_choice": "required"}),
        (
            {"type": "auto", "disable_parallel_tool_use": True},
            {"tool_choice": "auto", "parallel_tool_calls": False},
        ),
    ],
)
def test_tools_have_chat_completions_format(choice: Any, parameters: dict[str, Any]) -> None:
    found = asked(tools=[TOOL], tool_choice=choice)
    function = {"name": "f", "parameters": {"type": "object"}, "description": "Does."}
    assert found["tools"] == [{"type": "function", "function": function}]
    assert {name: found["parameters"].get(name) for name in parameters} == parameters


def test_output_schema_is_a_response_format() -> None:
    schema = {"type": "object"}
    found = asked(output_config={"format": {"type": "json_schema", "schema": schema}})
    assert found["response_format"]["json_schema"]["schema"] == schema


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"tools": [{**TOOL, "type": "web_search"}]}, "tools[0].type"),
        ({"tools": [{**TOOL, "input_schema": 5}]}, "tools[0].input_schema"),
        ({"tools": [TOOL], "tool_choice": {}}, "tool_choice.type"),
        ({"output_config": {"format": {"type": "json_schema"}}}, "output_config.format.schema"),
        ({"stop_sequences": ["a"] * 65}, "stop_sequences"),
    ],
)
def test_invalid_parameter_is_named(fields: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        asked(**fields)
    assert refused.value.detail[0]["loc"] == [path]


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (Overloaded("full"), 529, "overloaded_error"),
        (Unsupported("no"), 400, "invalid_request_error"),
        (ModelNotFound("m"), 404, "not_found_error"),
    ],
)
def test_errors_have_anthropic_status(error: Any, status: int, kind: str) -> None:
    found, _, body = Anthropic(cast(ServerModels, None), Settings(), Meters()).error(error)
    assert (found, orjson.loads(body)["error"]["type"]) == (status, kind)


def count() -> TokenCount:
    admission = SimpleNamespace(facet=lambda kind: None, settings=ModelSettings(implementation="m.M"))
    return TokenCount(cast(Admission, admission), Generation({}), InferenceRequest(inputs=[]), "id")


def test_prompt_tokens_are_the_first_reported_by_model() -> None:
    counting = count()
    first, second = responses_of(Token("a"), Token("b", usage=Usage(7, 2)))
    assert counting.add(first)
    assert not counting.add(second)
    _, body = counting.end()
    assert orjson.loads(body) == {"input_tokens": 7}
    assert counting.headers == [(b"request-id", b"id")]


def test_model_that_reports_no_tokens_is_unsupported() -> None:
    counting = count()
    asked_on = [counting.add(response) for response in responses_of(*["a"] * MAX_COUNTED)]
    assert asked_on == [True] * (MAX_COUNTED - 1) + [False]
    with pytest.raises(Unsupported, match="does not say how many tokens"):
        counting.end()

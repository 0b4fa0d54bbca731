"""OpenAI's responses, tool calls, JSON mode and images, with OpenAI's own client, with and without workers."""

import base64
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import openai
import pytest
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import BaseModel, TypeAdapter

from tests.pairs import pairwise
from tests.serving import Running, eventually, write_model

CODE = Path(__file__).with_name("assistant_models.py").read_text()
EVENT: TypeAdapter = TypeAdapter(ResponseStreamEvent)
HELLO = "Hello wörld 🎉"
IMAGE = b"\x89PNG" + bytes(range(256)) * 400  # a body of this size is parsed in another way
PIXEL = base64.b64encode(IMAGE).decode()
DATA_URL = f"data:image/png;base64,{PIXEL}"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS = [
    {"type": "function", "name": "weather", "description": "d", "parameters": SCHEMA, "strict": False},
    {"type": "function", "name": "time", "parameters": SCHEMA, "strict": False},
]
CHAT_TOOLS = [
    {"type": "function", "function": {name: value for name, value in tool.items() if name != "type"}}
    for tool in TOOLS
]
ARGUMENTS = '{"city":"Zürich"}'
PATCHED = "*** Begin Patch\n+ü"
BEGINNING = ["response.created", "response.in_progress"]
OPENING = ["response.output_item.added", "response.content_part.added"]
ENDING = ["response.output_text.done", "response.content_part.done", "response.output_item.done"]
CALL = ["response.output_item.added", *["response.function_call_arguments.delta"] * 2]
CALLED = ["response.function_call_arguments.done", "response.output_item.done"]


def tensor(name: str, **settings: object) -> dict:
    return {"name": name, "datatype": "BYTES", "shape": [-1], **settings}


@pytest.fixture(scope="module")
def serving(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("responses") / "models"
    texts = [tensor("text")]
    optional = {"parameters": {"optional": True}}
    special = [tensor(name, **optional) for name in ("tools", "response_format", "images", "audio")]
    write_model(
        folder,
        "assistant",
        "assistant_models.Assistant",
        CODE,
        name="assistant",
        inputs=[tensor("messages"), *special],
        outputs=texts,
    )
    write_model(
        folder,
        "continuing",
        "assistant_models.Continuing",
        CODE,
        name="continuing",
        inputs=[tensor("prompt")],
        outputs=texts,
    )
    write_model(
        folder,
        "refusing",
        "assistant_models.Continuing",
        CODE,
        name="refusing",
        inputs=[tensor("prompt")],
        outputs=texts,
        chat_template="{{ raise_exception('no such role') }}",
    )
    (folder / "settings.json").write_text(json.dumps({"parallel_workers": workers}))
    running = Running(folder)
    yield running
    assert running.stop() == 0, running.text()


@pytest.fixture(scope="module")
def client(serving: Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{serving.url}/v1", api_key="none", max_retries=0, timeout=20) as made:
        yield made


def respond(client: openai.OpenAI, input: object = "hi", **options):
    return client.responses.create(model="assistant", input=input, **options)


def test_response_has_text_usage_and_request_fields(client: openai.OpenAI) -> None:
    response = respond(
        client,
        instructions="Be kind.",
        metadata={"a": "b"},
        temperature=0.5,
        max_output_tokens=64,
        store=True,
    )
    assert response.output_text == HELLO
    assert response.status == "completed"
    assert response.error is None
    assert response.incomplete_details is None
    assert (response.usage.input_tokens, response.usage.output_tokens) == (2, 7)
    assert response.usage.total_tokens == 9
    assert (response.metadata, response.temperature) == ({"a": "b"}, 0.5)
    assert (response.instructions, response.max_output_tokens) == ("Be kind.", 64)
    assert response.id.startswith("resp_")
    assert response.output[0].id.startswith("msg_")
    assert response.model_dump()["store"] is False


def test_response_matches_client_schema(serving: Running, client: openai.OpenAI) -> None:
    body = {"model": "assistant", "input": "hi", "tools": TOOLS}
    for path in ("/v1/responses", "/openai/v1/responses"):
        found = httpx.post(f"{serving.url}{path}", json=body, timeout=20)
        assert found.status_code == 200, found.text
        Response.model_validate_json(found.text, strict=True)


def test_stream_events_are_ordered_and_numbered(client: openai.OpenAI) -> None:
    events = list(respond(client, stream=True))
    deltas = [event for event in events if event.type == "response.output_text.delta"]
    assert "".join(event.delta for event in deltas) == HELLO
    assert all("�" not in event.delta for event in deltas)
    assert [event.type for event in events] == [
        *BEGINNING,
        *OPENING,
        *["response.output_text.delta"] * len(deltas),
        *ENDING,
        "response.completed",
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    last = events[-1].response
    assert (last.output_text, last.status, last.usage.output_tokens) == (HELLO, "completed", 7)
    assert {event.item_id for event in deltas} == {last.output[0].id}


@pytest.mark.parametrize("options", [{"input": "hi"}, {"input": "mixed", "tools": TOOLS}])
def test_events_have_name_and_client_schema(serving: Running, options: dict) -> None:
    body = {"model": "assistant", "stream": True, **options}
    found = httpx.post(f"{serving.url}/v1/responses", json=body, timeout=20)
    assert found.headers["content-type"].startswith("text/event-stream")
    for event in found.text.split("\n\n")[:-1]:
        name, data = event.split("\n")
        assert name == f"event: {json.loads(data.removeprefix('data: '))['type']}"
        EVENT.validate_json(data.removeprefix("data: "))


async def test_the_asynchronous_client_streams(serving: Running) -> None:
    async with openai.AsyncOpenAI(
        base_url=f"{serving.url}/openai/v1", api_key="none", max_retries=0
    ) as client:
        stream = await client.responses.create(model="assistant", input="hi", stream=True)
        found = [event.delta async for event in stream if event.type == "response.output_text.delta"]
        assert "".join(found) == HELLO
        assert (await client.responses.create(model="assistant", input="hi")).output_text == HELLO


def test_client_accumulates_equal_response(client: openai.OpenAI) -> None:
    with client.responses.stream(model="assistant", input="text first", tools=TOOLS) as stream:
        for _ in stream:
            pass
        response = stream.get_final_response()
    assert response.output_text == "Let me look."
    assert json.loads(response.output[1].arguments) == {"city": "Zürich"}


def test_prompt_model_gets_input_as_prompt(client: openai.OpenAI) -> None:
    response = client.responses.create(model="continuing", input="one two")
    assert response.output_text == "one two "
    response = client.responses.create(model="continuing", input="hi", instructions="Be kind.")
    assert response.output_text == "system: Be kind.\nuser: hi\nassistant: "


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("input", "options", "reason"),
    [("hi", {"max_output_tokens": 2}, "max_output_tokens"), ("filtered", {}, "content_filter")],
)
def test_truncated_text_is_incomplete(
    client: openai.OpenAI, streamed: bool, input: str, options: dict, reason: str
) -> None:
    response = respond(client, input, stream=streamed, **options)
    if streamed:
        events = list(response)
        assert events[-1].type == "response.incomplete"
        response = events[-1].response
    assert response.status == response.output[0].status == "incomplete"
    assert response.incomplete_details.reason == reason
    assert response.output_text in ("Hello ", "bad")


def test_empty_text_is_an_empty_message(client: openai.OpenAI) -> None:
    assert respond(client, "nothing").output_text == ""
    events = list(respond(client, "nothing", stream=True))
    assert [event.type for event in events] == [*BEGINNING, *OPENING, *ENDING, "response.completed"]
    assert events[-1].response.output[0].content[0].text == ""


def test_items_become_messages(client: openai.OpenAI) -> None:
    items = [
        {"role": "developer", "content": "d"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "u"}]},
        {
            "type": "message",
            "id": "msg_1",
            "status": "completed",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "a", "annotations": []}],
        },
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "function_call", "call_id": "c2", "name": "g", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "1"},
        {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "2"}]},
        {"role": "user", "content": "messages"},
    ]
    found = json.loads(respond(client, items, instructions="i").output_text)
    calls = [
        {"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}}
        for id, name in (("c1", "f"), ("c2", "g"))
    ]
    assert found == [
        {"role": "system", "content": "i"},
        {"role": "developer", "content": "d"},
        {"role": "user", "content": "u"},
        {"role": "assistant", "content": "a", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c1", "content": "1"},
        {"role": "tool", "tool_call_id": "c2", "content": "2"},
        {"role": "user", "content": "messages"},
    ]


def test_sampling_and_other_fields_reach_model(client: openai.OpenAI) -> None:
    response = respond(
        client,
        "parameters",
        temperature=0.5,
        top_p=0.25,
        max_output_tokens=9,
        user="u",
        store=True,
        truncation="disabled",
        service_tier="auto",
        parallel_tool_calls=False,
        extra_body={"top_k": 3, "seed": 4, "unknown": [1], "empty": []},
    )
    assert json.loads(response.output_text) == {
        "max_tokens": 9,
        "seed": 4,
        "temperature": 0.5,
        "top_k": 3,
        "top_p": 0.25,
        "unknown": "[1]",
    }


def test_included_log_probabilities_are_returned(client: openai.OpenAI) -> None:
    options = {"include": ["message.output_text.logprobs"], "top_logprobs": 2}
    response = respond(client, **options)
    (first, second) = response.output[0].content[0].logprobs
    assert (first.token, first.logprob, second.bytes) == ("a", -0.25, [*"ß".encode()])
    assert [each.token for each in second.top_logprobs] == ["ß", "z"]
    events = list(respond(client, stream=True, **options))
    deltas = [event for event in events if event.type == "response.output_text.delta"]
    assert [[each.token for each in event.logprobs] for event in deltas] == [["a"], ["ß"]]
    assert len(events[-1].response.output[0].content[0].logprobs) == 2


def test_function_call_and_output_round_trip(client: openai.OpenAI) -> None:
    response = respond(client, tools=TOOLS)
    (called,) = response.output
    assert (called.type, called.name, called.call_id) == ("function_call", "weather", "call_0")
    assert json.loads(called.arguments) == {"city": "Zürich"}
    items = [
        {"role": "user", "content": "hi"},
        *response.output,
        {"type": "function_call_output", "call_id": called.call_id, "output": "sunny"},
    ]
    assert respond(client, items, tools=TOOLS).output_text == "It is sunny."


def test_call_events_follow_text_events(client: openai.OpenAI) -> None:
    events = list(respond(client, "text first", tools=TOOLS, stream=True))
    assert [event.type for event in events] == [
        *BEGINNING,
        *OPENING,
        "response.output_text.delta",
        *ENDING,
        *CALL,
        *CALLED,
        "response.completed",
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    arguments = [event for event in events if event.type == "response.function_call_arguments.delta"]
    assert "".join(event.delta for event in arguments) == ARGUMENTS
    assert {event.output_index for event in arguments} == {1}
    assert [item.type for item in events[-1].response.output] == ["message", "function_call"]


@pytest.mark.parametrize("input", ["both", "mixed"])
def test_response_can_contain_interleaved_calls(client: openai.OpenAI, input: str) -> None:
    whole = respond(client, input, tools=TOOLS).output
    events = list(respond(client, input, tools=TOOLS, stream=True))
    streamed = events[-1].response.output
    for calls in (whole, streamed):
        assert [(item.name, item.arguments) for item in calls] == [("weather", ARGUMENTS), ("time", "{}")]
    done = [event for event in events if event.type == "response.function_call_arguments.done"]
    assert [(event.output_index, event.arguments) for event in done] == [(0, ARGUMENTS), (1, "{}")]


GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": "start: /.+/s"}
PATCH = {"type": "custom", "name": "apply_patch", "description": "Edits files.", "format": GRAMMAR}
SPACES = {
    "alone": ([PATCH], None),
    "in a namespace": (
        [{"type": "namespace", "name": "files", "description": "d", "tools": [PATCH]}],
        "files",
    ),
    "allowed": ([*TOOLS, PATCH], None),
}


@pytest.mark.parametrize(
    ("place", "input", "stream"), pairwise([*SPACES], ["patch", "bare patch"], [False, True])
)
def test_custom_tool_input_is_plain_text(client: openai.OpenAI, place: str, input: str, stream: bool) -> None:
    tools, namespace = SPACES[place]
    named = [{"type": "custom", "name": "apply_patch"}]
    chosen = {"type": "allowed_tools", "mode": "required", "tools": named} if place == "allowed" else "auto"
    options = {"tools": tools, "tool_choice": chosen}
    if stream:
        events = list(respond(client, input, stream=True, **options))
        response = events[-1].response
        kinds = [event.type for event in events if "custom_tool_call" in event.type]
        assert kinds == [f"response.custom_tool_call_input.{end}" for end in ("delta", "done")]
        assert {event.delta for event in events if event.type.endswith("input.delta")} == {PATCHED}
    else:
        response = respond(client, input, **options)
    [made] = response.output
    assert (made.type, made.name, made.input, made.namespace) == (
        "custom_tool_call",
        "apply_patch",
        PATCHED,
        namespace,
    )
    output = {"type": "custom_tool_call_output", "call_id": made.call_id, "output": "Done"}
    again = respond(client, [{"role": "user", "content": input}, made, output], **options)
    assert again.output_text == "It is Done."
    referred = {"type": "item_reference", "id": made.id}
    again = respond(client, [{"role": "user", "content": input}, referred, output], **options)
    assert again.output_text == "It is Done."


def test_only_allowed_tools_reach_the_model(client: openai.OpenAI) -> None:
    allowed = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "time"}]}
    assert respond(client, tools=TOOLS, tool_choice=allowed).output[0].name == "time"
    assert respond(client, tools=TOOLS, tool_choice="none").output_text == HELLO


def test_text_format_reaches_model(client: openai.OpenAI) -> None:
    class City(BaseModel):
        name: str

    found = client.responses.create(
        model="assistant",
        input="hi",
        text={"format": {"type": "json_schema", "name": "city", "schema": City.model_json_schema()}},
    )
    assert json.loads(found.output_text)["format"] == {
        "type": "json_schema",
        "json_schema": {"name": "city", "schema": City.model_json_schema()},
    }
    assert found.text.format.name == "city"


def test_image_and_audio_bytes_reach_model(client: openai.OpenAI) -> None:
    sound = base64.b64encode(b"RIFF").decode()
    parts = [
        {"type": "input_text", "text": "look"},
        {"type": "input_image", "image_url": DATA_URL, "detail": "auto"},
        {"type": "input_audio", "input_audio": {"data": sound, "format": "wav"}},
    ]
    digests = "".join(hashlib.sha256(part).hexdigest() for part in (IMAGE, b"RIFF"))
    assert respond(client, [{"role": "user", "content": parts}]).output_text == digests
    parts = [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": DATA_URL}},
        {"type": "input_audio", "input_audio": {"data": sound, "format": "wav"}},
    ]
    assert chat(client, [{"role": "user", "content": parts}]).choices[0].message.content == digests


REFUSALS = [
    ({"previous_response_id": "resp_1"}, "previous_response_id"),
    ({"conversation": "conv_1"}, "conversation"),
    ({"background": True}, "background"),
    ({"prompt": {"id": "p"}}, "prompt"),
    ({"tools": [{"type": "function"}]}, "tools[0].name"),
    ({"tools": [{"type": "function"}]}, "tools[0].name"),
    ({"tools": TOOLS, "tool_choice": {"type": "function", "name": "nobody"}}, "tool_choice"),
    ({"tools": TOOLS, "tool_choice": "perhaps"}, "tool_choice"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"temperature": -1}, "temperature"),
    ({"max_output_tokens": 0}, "max_output_tokens"),
    ({"extra_body": {"max_tokens": 3}}, "max_tokens"),
    ({"extra_body": {"n": 0}}, "n"),
    ({"top_logprobs": 3}, "top_logprobs"),
    ({"truncation": "perhaps"}, "truncation"),
    ({"metadata": {"a": 1}}, "metadata"),
    ({"text": {"format": {"type": "xml"}}}, "text.format.type"),
    ({"text": {"format": {"type": "json_schema", "name": "n"}}}, "text.format.schema"),
    ({"stream_options": {}}, "stream_options"),
    ({"input": []}, "input"),
    ({"input": 3}, "input"),
    ({"input": [{"role": "nobody", "content": "x"}]}, "input[0].role"),
    ({"input": [{"role": "user"}]}, "input[0].content"),
    ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0].id"),
    ({"input": [{"type": "function_call", "name": "f", "arguments": ""}]}, "input[0].call_id"),
    ({"input": [{"type": "function_call_output", "call_id": "c"}]}, "input[0].output"),
    (
        {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]},
        "input[0].content[0].type",
    ),
    (
        {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]},
        "input[0].content[0].image_url",
    ),
    (
        {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": f"{DATA_URL}!"}]}]},
        "input[0].content[0].image_url",
    ),
]


@pytest.mark.parametrize(("options", "field"), REFUSALS, ids=[str(index) for index in range(len(REFUSALS))])
def test_invalid_field_is_named(client: openai.OpenAI, options: dict, field: str) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        respond(client, **{"input": "hi", "stream": field != "stream_options", **options})
    assert refused.value.param == field
    assert refused.value.type == "invalid_request_error"


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"tools": TOOLS}, "tools"),
        ({"text": {"format": {"type": "json_object"}}}, "text.format"),
        ({"include": ["message.output_text.logprobs"]}, "include"),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": DATA_URL}]}]}, "input"),
    ],
)
def test_undeclared_field_is_refused_by_name(client: openai.OpenAI, options: dict, field: str) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(**{"model": "continuing", "input": "hi", **options})
    assert refused.value.param == field


def test_model_refusal_is_bad_request(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        respond(client, "too long", stream=True)
    assert refused.value.param == "prompt"


def test_template_refusal_names_input(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="no such role") as refused:
        client.responses.create(model="refusing", input="hi")
    assert refused.value.param == "input"


def test_an_unknown_model_is_not_found(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as refused:
        client.responses.create(model="nobody", input="hi")
    assert refused.value.code == "model_not_found"


def test_mid_stream_failure_is_failed_response(client: openai.OpenAI) -> None:
    events = []
    with pytest.raises(openai.APIError):
        for event in respond(client, "fail", stream=True):
            events.append(event)
    failed = events[-1]
    assert failed.type == "response.failed"
    assert (failed.response.status, failed.response.error.code) == ("failed", "server_error")
    assert failed.response.output[0].content[0].text == "one"
    assert "canary" not in failed.response.error.message
    assert not any(event.type == "response.completed" for event in events)
    with pytest.raises(openai.InternalServerError):
        respond(client, "fail")


def test_disconnect_ends_model(serving: Running, client: openai.OpenAI) -> None:
    before = serving.log.read_text().count("ended")
    stream = respond(client, "endless", stream=True)
    next(iter(stream))
    stream.close()
    eventually(lambda: serving.log.read_text().count("ended") > before)


def test_responses_are_not_stored(serving: Running, client: openai.OpenAI) -> None:
    id = respond(client).id
    for use in (client.responses.retrieve, client.responses.delete, client.responses.cancel):
        with pytest.raises(openai.NotFoundError, match="not stored"):
            use(id)
    with pytest.raises(openai.NotFoundError, match="not stored"):
        client.responses.input_items.list(id)


def chat(client: openai.OpenAI, messages: list | str, **options):
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    return client.chat.completions.create(model="assistant", messages=messages, **options)


def test_chat_calls_tool(client: openai.OpenAI) -> None:
    (choice,) = chat(client, "text first", tools=CHAT_TOOLS).choices
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", "Let me look.")
    (called,) = choice.message.tool_calls
    assert (called.id, called.type, called.function.name) == ("call_0", "function", "weather")
    assert called.function.arguments == ARGUMENTS
    messages = [
        {"role": "user", "content": "hi"},
        choice.message,
        {"role": "tool", "tool_call_id": called.id, "content": "sunny"},
    ]
    assert chat(client, messages, tools=CHAT_TOOLS).choices[0].message.content == "It is sunny."


def test_streamed_chat_calls_tool(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(
        model="assistant", messages=[{"role": "user", "content": "mixed"}], tools=CHAT_TOOLS
    ) as stream:
        for _ in stream:
            pass
        (choice,) = stream.get_final_completion().choices
    assert choice.finish_reason == "tool_calls"
    called = [(call.id, call.function.name, call.function.arguments) for call in choice.message.tool_calls]
    assert called == [("call_0", "weather", ARGUMENTS), ("call_1", "time", "{}")]


def test_chat_tool_choice_none_and_named(client: openai.OpenAI) -> None:
    assert chat(client, "hi", tools=CHAT_TOOLS, tool_choice="none").choices[0].message.content == HELLO
    named = {"type": "function", "function": {"name": "time"}}
    allowed = {"mode": "auto", "tools": [{"type": "function", "function": {"name": "time"}}]}
    choice = {"type": "allowed_tools", "allowed_tools": allowed}
    for options in (
        {"tools": CHAT_TOOLS[1:], "tool_choice": named},
        {"tools": CHAT_TOOLS, "tool_choice": choice},
    ):
        (called,) = chat(client, "hi", **options).choices[0].message.tool_calls
        assert called.function.name == "time"


@pytest.mark.parametrize("streamed", [False, True])
def test_chat_json_format(client: openai.OpenAI, streamed: bool) -> None:
    format = {"type": "json_schema", "json_schema": {"name": "city", "schema": SCHEMA}}
    found = chat(client, "hi", response_format=format, stream=streamed)
    if streamed:
        text = "".join(chunk.choices[0].delta.content or "" for chunk in found)
    else:
        text = found.choices[0].message.content
    assert json.loads(text) == {"format": format}


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tools": [{"type": "custom", "custom": {"name": "c"}}]}, "tools[0].type"),
        ({"tools": CHAT_TOOLS, "tool_choice": "perhaps"}, "tool_choice"),
        (
            {"tools": CHAT_TOOLS, "tool_choice": {"type": "function", "function": {"name": "nobody"}}},
            "tool_choice",
        ),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"functions": [{"name": "f"}]}, "functions"),
        (
            {
                "messages": [
                    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x/"}}]}
                ]
            },
            "messages[0].content[0].image_url",
        ),
    ],
)
def test_invalid_chat_field_is_named(client: openai.OpenAI, options: dict, field: str) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        chat(client, **{"messages": "hi", **options})
    assert refused.value.param == field


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"tools": CHAT_TOOLS}, "tools"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        (
            {
                "messages": [
                    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": DATA_URL}}]}
                ]
            },
            "messages",
        ),
    ],
)
def test_chat_with_undeclared_model(client: openai.OpenAI, options: dict, field: str) -> None:
    messages = [{"role": "user", "content": "hi"}]
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(**{"model": "continuing", "messages": messages, **options})
    assert refused.value.param == field

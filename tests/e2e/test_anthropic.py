"""Anthropic's messages with Anthropic's own client, with and without workers."""

import asyncio
import base64
import hashlib
import inspect
import json
from collections.abc import Iterator
from pathlib import Path

import anthropic
import httpx
import pytest
from anthropic.resources.messages import Messages

from tests.serving import Running, eventually, write_model
from tests.texts import ended, idle, prompt, said

CODE = Path(__file__).with_name("assistant_models.py").read_text()
HELLO = "Hello wörld 🎉"
IMAGE = b"\x89PNG" + bytes(range(256)) * 400
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS = [
    {"name": "weather", "description": "d", "input_schema": SCHEMA},
    {"type": "custom", "name": "time", "input_schema": SCHEMA},
]
CITY = {"city": "Zürich"}


@pytest.fixture(scope="module")
def serving(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("anthropic") / "models"

    def tensor(name: str, **more: object) -> dict:
        return {"name": name, "datatype": "BYTES", "shape": [-1], **more}

    special = [tensor(name, parameters={"optional": True}) for name in ("tools", "response_format", "images")]
    write_model(
        folder,
        "assistant",
        "assistant_models.Assistant",
        CODE,
        name="assistant",
        inputs=[tensor("messages"), *special],
        outputs=[tensor("text")],
    )
    write_model(
        folder,
        "continuing",
        "assistant_models.Continuing",
        CODE,
        name="continuing",
        inputs=[tensor("prompt")],
        outputs=[tensor("text")],
    )
    (folder / "settings.json").write_text(json.dumps({"parallel_workers": workers}))
    running = Running(folder)
    yield running
    assert running.stop() == 0, running.text()


CLIENTS: dict[str, anthropic.Anthropic] = {}


def client(url: str) -> anthropic.Anthropic:
    if url not in CLIENTS:
        CLIENTS[url] = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0, timeout=20)
    return CLIENTS[url]


@pytest.fixture(scope="module", autouse=True)
def closed_clients() -> Iterator[None]:
    """The client closes no connection by itself."""
    yield
    while CLIENTS:
        CLIENTS.popitem()[1].close()


def plain(block: anthropic.types.ContentBlock) -> dict:
    """A block without what the client adds to those of streams."""
    return block.to_dict() | {"parsed_output": None}


def ask(serving: Running, content: object, **options: object) -> anthropic.types.Message:
    """The whole message; the stream must give the same one."""
    asked = {"model": "assistant", "max_tokens": 100, "messages": [{"role": "user", "content": content}]}
    whole = client(serving.url).messages.create(**{**asked, **options})
    with client(serving.url).messages.stream(**{**asked, **options}) as stream:
        streamed = stream.get_final_message()
    assert [plain(each) for each in streamed.content] == [plain(each) for each in whole.content]
    assert (streamed.stop_reason, streamed.stop_sequence) == (whole.stop_reason, whole.stop_sequence)
    assert (streamed.usage.input_tokens, streamed.usage.output_tokens) == (
        whole.usage.input_tokens,
        whole.usage.output_tokens,
    )
    return whole


def test_gathered_message(serving: Running) -> None:
    message = ask(serving, "hi")
    assert (message.type, message.role, message.model) == ("message", "assistant", "assistant")
    assert message.id.startswith("msg_")
    [block] = message.content
    assert (block.type, block.text) == ("text", HELLO)
    assert (message.stop_reason, message.stop_sequence) == ("end_turn", None)
    usage = message.usage
    assert (usage.input_tokens, usage.output_tokens) == (1, 7)
    assert (usage.cache_creation_input_tokens, usage.cache_read_input_tokens) == (0, 0)


@pytest.mark.parametrize("own", [None, "order-7"])
def test_responses_have_request_id_header(serving: Running, own: str | None) -> None:
    """It is the X-Request-Id, else the id of the message, by which the access log knows the call."""
    asked = {
        "model": "assistant",
        "messages": said("hi"),
        "extra_headers": {"x-request-id": own} if own else {},
    }
    messages = client(serving.url).messages
    message = messages.create(**asked, max_tokens=9)
    assert message._request_id == own or f"msg_{message._request_id}" == message.id
    with messages.stream(**asked, max_tokens=9) as stream:
        streamed = stream.get_final_message()
        assert stream.request_id == own or f"msg_{stream.request_id}" == streamed.id
    counted = messages.count_tokens(**asked)._request_id
    assert counted == own if own else counted
    with pytest.raises(anthropic.NotFoundError) as caught:
        messages.create(**{**asked, "model": "nobody"}, max_tokens=9)
    assert caught.value.request_id == own


def test_stream_events_have_anthropic_order(serving: Running) -> None:
    events = [
        *client(serving.url).messages.create(
            model="assistant", max_tokens=9, messages=said("hi"), stream=True
        )
    ]
    deltas = [event for event in events if event.type == "content_block_delta"]
    assert [event.type for event in events] == [
        "message_start",
        "content_block_start",
        *["content_block_delta"] * len(deltas),
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert [delta.delta.text for delta in deltas] == ["Hello", " ", "wörld ", "🎉"]
    assert events[0].message.stop_reason is None
    assert events[-2].usage.output_tokens == 7


async def test_the_asynchronous_client(serving: Running) -> None:
    async with anthropic.AsyncAnthropic(base_url=serving.url, api_key="none", max_retries=0) as asked:
        options = {"model": "assistant", "max_tokens": 100, "messages": said("hi")}
        assert (await asked.messages.create(**options)).content[0].text == HELLO
        async with asked.messages.stream(**options) as stream:
            assert "".join([text async for text in stream.text_stream]) == HELLO
        assert (await asked.messages.count_tokens(model="assistant", messages=said("hi"))).input_tokens == 1


def test_system_prompt_and_messages_reach_model(serving: Running) -> None:
    blocks = [{"type": "text", "text": "be "}, {"type": "text", "text": "kind"}]
    turns = [
        {"role": "user", "content": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "text", "text": "b"},
                {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": CITY},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "5"}]},
                {"type": "tool_result", "tool_use_id": "toolu_2", "is_error": True},
            ],
        },
        {"role": "user", "content": "messages"},
    ]
    for system in ("be kind", blocks):
        message = ask(serving, "", messages=turns, system=system)
        function = {"name": "weather", "arguments": '{"city":"Zürich"}'}
        assert json.loads(message.content[0].text) == [
            {"role": "system", "content": "be kind"},
            {"role": "user", "content": "a"},
            {
                "role": "assistant",
                "content": "b",
                "reasoning_content": "hm",
                "tool_calls": [{"id": "toolu_1", "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": "toolu_1", "content": "5"},
            {"role": "tool", "tool_call_id": "toolu_2", "content": ""},
            {"role": "user", "content": "messages"},
        ]


def test_messages_become_prompt_for_prompt_model(serving: Running) -> None:
    message = ask(serving, "hi", model="continuing", system="be kind")
    assert message.content[0].text == "system: be kind\nuser: hi\nassistant: "


def test_images_reach_the_model(serving: Running) -> None:
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(IMAGE).decode()}
    message = ask(serving, [{"type": "text", "text": "what?"}, {"type": "image", "source": source}])
    assert message.content[0].text == hashlib.sha256(IMAGE).hexdigest()


def test_parameters_reach_the_model(serving: Running) -> None:
    sampling = {"temperature": 0.5, "top_p": 0.25, "top_k": 3}
    message = ask(serving, "parameters", metadata={"user_id": "u"}, extra_body=sampling)
    given = json.loads(message.content[0].text)
    assert {name: given[name] for name in ("max_tokens", *sampling)} == {"max_tokens": 100, **sampling}
    assert given.keys() <= {"max_tokens", "headers", *sampling}


@pytest.mark.parametrize(
    ("said", "before", "names"),
    [
        ("once", [], ["weather"]),
        ("text first", ["Let me look."], ["weather"]),
        ("both", [], ["weather", "time"]),
        ("mixed", [], ["weather", "time"]),
    ],
)
def test_tool_calls(serving: Running, said: str, before: list[str], names: list[str]) -> None:
    message = ask(serving, said, tools=TOOLS)
    assert message.stop_reason == "tool_use"
    texts = [block.text for block in message.content if block.type == "text"]
    calls = [block for block in message.content if block.type == "tool_use"]
    assert texts == before
    assert [(call.id, call.name) for call in calls] == [(f"call_{at}", name) for at, name in enumerate(names)]
    assert [call.input for call in calls] == [CITY, {}][: len(names)]


def test_tool_input_is_streamed_and_blocks_follow_in_order(serving: Running) -> None:
    events = client(serving.url).messages.create(
        model="assistant", max_tokens=9, messages=said("mixed"), tools=TOOLS, stream=True
    )
    open_block, pieces = None, {}
    for event in events:
        if event.type == "content_block_start":
            assert open_block is None
            open_block = event.index
        elif event.type == "content_block_delta":
            assert event.index == open_block
            pieces.setdefault(event.index, []).append(event.delta.partial_json)
        elif event.type == "content_block_stop":
            assert event.index == open_block
            open_block = None
    assert pieces == {0: ['{"city":', '"Zürich"}'], 1: ["{}"]}


@pytest.mark.parametrize(
    ("choice", "given"),
    [
        ({"type": "auto"}, {"tool_choice": "auto"}),
        ({"type": "any"}, {"tool_choice": "required"}),
        ({"type": "none"}, {}),
        (
            {"type": "tool", "name": "time", "disable_parallel_tool_use": True},
            {
                "tool_choice": '{"type":"function","function":{"name":"time"}}',
                "parallel_tool_calls": False,
            },
        ),
    ],
)
def test_tool_choice(texts: Running, choice: dict, given: dict) -> None:
    """What reaches the model, which says it."""
    answer = client(texts.url).messages.create(
        model="calling", max_tokens=9, messages=said("hi"), tools=TOOLS, tool_choice=choice
    )
    found = json.loads(answer.content[0].text)
    assert {name: found["parameters"].get(name) for name in ("tool_choice", "parallel_tool_calls")} == {
        "tool_choice": None,
        "parallel_tool_calls": None,
    } | given
    tools = [json.loads(each) for each in found["inputs"].get("tools", [])]
    assert [[tool["function"]["name"] for tool in each] for each in tools] == (
        [["weather", "time"]] if given else []
    )


def test_schema_reaches_model(serving: Running) -> None:
    format = {"type": "json_schema", "schema": SCHEMA}
    found = json.loads(ask(serving, "hi", output_config={"format": format}).content[0].text)
    assert found == {"format": {"type": "json_schema", "json_schema": {"name": "output", "schema": SCHEMA}}}


@pytest.mark.parametrize(
    ("options", "text", "reason", "stop"),
    [
        ({"max_tokens": 2}, "Hello ", "max_tokens", None),
        ({"stop_sequences": ["never", "wör"]}, "Hello ", "stop_sequence", "wör"),
        ({"messages": said("filtered")}, "bad", "refusal", None),
        ({"messages": said("nothing")}, "", "end_turn", None),
    ],
)
def test_stop_reasons(serving: Running, options: dict, text: str, reason: str, stop: str | None) -> None:
    message = ask(serving, "hi", **options)
    assert "".join(block.text for block in message.content) == text
    assert (message.stop_reason, message.stop_sequence) == (reason, stop)


def test_model_counts_tokens(serving: Running) -> None:
    counted = client(serving.url).messages.count_tokens(
        model="assistant", messages=said("endless"), system="s", tools=TOOLS
    )
    assert counted.input_tokens == 2
    with pytest.raises(anthropic.BadRequestError, match="does not say how many tokens"):
        client(serving.url).messages.count_tokens(model="assistant", messages=said("endless"))
    eventually(lambda: idle(serving))


def test_models(serving: Running) -> None:
    asked = client(serving.url)
    page = asked.models.list()
    assert [model.id for model in page] == ["assistant", "continuing"]
    assert (page.first_id, page.last_id, page.has_more) == ("assistant", "continuing", False)
    model = asked.models.retrieve("assistant")
    assert (model.type, model.id, model.display_name) == ("model", "assistant", "assistant")
    assert model.created_at.year > 2000
    others = httpx.get(f"{serving.url}/v1/models").json()
    assert [model["object"] for model in others["data"]] == ["model", "model"]
    for name in ("nobody", "nobody:1"):
        with pytest.raises(anthropic.NotFoundError) as refused:
            asked.models.retrieve(name)
        assert refused.value.type == "not_found_error"


@pytest.mark.parametrize(
    ("changes", "kind", "type", "words"),
    [
        ({"model": "nobody"}, anthropic.NotFoundError, "not_found_error", "nobody not found"),
        ({"messages": []}, anthropic.BadRequestError, "invalid_request_error", "messages: must not be empty"),
        ({"max_tokens": 0}, anthropic.BadRequestError, "invalid_request_error", "max_tokens: must be"),
        ({"max_tokens": None}, anthropic.BadRequestError, "invalid_request_error", "max_tokens: is missing"),
        (
            {"messages": [{"role": "robot", "content": "a"}]},
            anthropic.BadRequestError,
            "invalid_request_error",
            r"messages\[0\].role: must be one of user, assistant, system, got 'robot'",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "video"}]}]},
            anthropic.BadRequestError,
            "invalid_request_error",
            r"messages\[0\].content\[0\].type: 'video' is not taken",
        ),
        (
            {"messages": said([{"type": "image", "source": {"type": "url", "url": "http://a/b.png"}}])},
            anthropic.BadRequestError,
            "invalid_request_error",
            r"source.type: must be base64; the server fetches nothing",
        ),
        (
            {"tools": [{"type": "web_search_20260209", "name": "web_search"}]},
            anthropic.BadRequestError,
            "invalid_request_error",
            r"tools\[0\].type: 'web_search_20260209' is not taken",
        ),
        (
            {"tools": [{"name": "weather", "input_schema": "object"}]},
            anthropic.BadRequestError,
            "invalid_request_error",
            r"tools\[0\].input_schema: must be an object",
        ),
        (
            {"tools": TOOLS, "tool_choice": {"type": "tool", "name": "other"}},
            anthropic.BadRequestError,
            "invalid_request_error",
            "no tool is called 'other'",
        ),
        (
            {"model": "continuing", "tools": TOOLS},
            anthropic.BadRequestError,
            "invalid_request_error",
            "tools: the model calls no tools",
        ),
        ({"messages": said("too long")}, anthropic.BadRequestError, "invalid_request_error", "the context"),
        ({"messages": said("fail")}, anthropic.InternalServerError, "api_error", "failed"),
    ],
)
def test_errors(serving: Running, changes: dict, kind: type, type: str, words: str) -> None:
    options = {"model": "assistant", "max_tokens": 9, "messages": said("hi"), **changes}
    with pytest.raises(kind, match=words) as refused:
        client(serving.url).messages.create(**options)
    assert refused.value.body["type"] == "error"
    assert refused.value.body["error"]["type"] == type
    assert "canary" not in str(refused.value)


def test_client_raises_mid_stream_failure(serving: Running) -> None:
    pieces = []
    with pytest.raises(anthropic.APIStatusError, match="failed") as failed:
        with client(serving.url).messages.stream(
            model="assistant", max_tokens=9, messages=said("fail")
        ) as stream:
            pieces += stream.text_stream
    assert failed.value.type == "api_error"
    assert "canary" not in str(failed.value)


def test_full_queue_is_overloaded_error(texts: Running) -> None:
    text = prompt()
    with client(texts.url).messages.stream(
        model="one-at-a-time", max_tokens=1000, messages=said(text), extra_body={"endless": True}
    ) as first:
        next(first.text_stream)
        with pytest.raises(anthropic.OverloadedError) as refused:
            client(texts.url).messages.create(model="one-at-a-time", max_tokens=9, messages=said(prompt()))
        assert refused.value.status_code == 529
        assert refused.value.response.headers["retry-after"]
    ended(texts, text)


@pytest.mark.parametrize("model", ["words", "blocking-words", "steps"])
def test_cancelled_stream_ends_model(texts: Running, model: str) -> None:
    text = prompt()
    with client(texts.url).messages.stream(
        model=model, max_tokens=10**6, messages=said(text), extra_body={"endless": True}
    ) as stream:
        next(stream.text_stream)
        assert not texts.noted(f"finally {text}")
    ended(texts, text)
    eventually(lambda: idle(texts))


async def test_abandoned_message_ends_model(texts: Running) -> None:
    text = prompt()
    async with anthropic.AsyncAnthropic(
        base_url=texts.url, api_key="none", max_retries=0, timeout=20
    ) as asked:
        options = {"model": "words", "max_tokens": 10**6, "messages": said(text)}
        waiting = asyncio.create_task(asked.messages.create(**options, extra_body={"endless": True}))
        await asyncio.to_thread(eventually, lambda: texts.noted(f"start {text}"), 10)
        waiting.cancel()
        await asyncio.to_thread(ended, texts, text)


def test_silent_stream_sends_pings(start, tmp_path: Path) -> None:
    from tests.texts import write_text_models

    running = start(write_text_models(tmp_path / "models", sse_heartbeat=0.1))
    body = {"model": "words", "max_tokens": 9, "messages": said("a b"), "stream": True, "pause": 0.5}
    answer = httpx.post(f"{running.url}/v1/messages", json=body, timeout=20)
    events = [event.splitlines()[0] for event in answer.text.split("\n\n")[:-1]]
    assert "event: ping" in events
    assert events[0] == "event: message_start"
    streamed = client(running.url).messages.create(
        model="words", max_tokens=9, messages=said("a b"), extra_body={"pause": 0.5}, stream=True
    )
    text = "".join(event.delta.text for event in streamed if event.type == "content_block_delta")
    assert text == "a b"


SERVED = {"create", "stream", "count_tokens"}
UNSERVED = {
    "parse": "it is `create` with a schema, as test_schema_reaches_model",
    "batches": "batches are files that a server keeps; ours keeps none",
    "with_raw_response": "another form of the same requests",
    "with_streaming_response": "another form of the same requests",
}
"""Public methods of the client that no test here calls, and why."""


def test_every_client_method_is_tested_or_excused() -> None:
    public = {name for name, _ in inspect.getmembers(Messages) if not name.startswith("_")}
    assert public == SERVED | UNSERVED.keys()

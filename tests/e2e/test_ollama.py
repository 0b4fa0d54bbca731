"""Ollama's own client, with and without workers: chats, completions, embeddings, and what there is to call."""

import asyncio
import inspect
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import ollama
import pytest

from tests.serving import Running, eventually, write_model
from tests.texts import ended, idle, prompt, said

CODE = Path(__file__).with_name("assistant_models.py").read_text()
HELLO = "Hello wörld 🎉"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS = [
    {"type": "function", "function": {"name": name, "description": "d", "parameters": SCHEMA}}
    for name in ("weather", "time")
]
CITY = {"city": "Zürich"}


@pytest.fixture(scope="module")
def serving(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("ollama") / "models"

    def tensor(name: str, **more: object) -> dict:
        return {"name": name, "datatype": "BYTES", "shape": [-1], **more}

    optional = {"parameters": {"optional": True}}
    special = [tensor(name, **optional) for name in ("tools", "response_format", "images")]
    models = {"assistant": [tensor("messages"), *special], "continuing": [tensor("prompt")]}
    for name, inputs in models.items():
        code = f"assistant_models.{name.title()}"
        write_model(folder, name, code, CODE, name=name, inputs=inputs, outputs=[tensor("text")])
    (folder / "settings.json").write_text(json.dumps({"parallel_workers": workers}))
    running = Running(folder)
    yield running
    assert running.stop() == 0, running.text()


CLIENTS: dict[str, ollama.Client] = {}


def client(url: str) -> ollama.Client:
    if url not in CLIENTS:
        CLIENTS[url] = ollama.Client(host=url, timeout=20)
    return CLIENTS[url]


@pytest.fixture(scope="module", autouse=True)
def closed_clients() -> Iterator[None]:
    """The client closes no connection by itself."""
    yield
    while CLIENTS:
        CLIENTS.popitem()[1].close()


def chat(serving: Running, content: str, model: str = "assistant", **options: object) -> ollama.ChatResponse:
    """The whole response; the stream must give the same one."""
    asked = {"model": model, "messages": said(content), **options}
    whole = client(serving.url).chat(**asked)
    *parts, last = client(serving.url).chat(**asked, stream=True)
    assert not any(part.done for part in parts)
    assert "".join(part.message.content for part in parts) == whole.message.content
    calls = [call for part in parts for call in part.message.tool_calls or ()]
    assert calls == [*(whole.message.tool_calls or ())]
    assert (last.done, last.done_reason) == (True, whole.done_reason)
    assert (last.prompt_eval_count, last.eval_count) == (whole.prompt_eval_count, whole.eval_count)
    return whole


def test_a_chat(serving: Running) -> None:
    answer = chat(serving, "hi")
    assert (answer.model, answer.message.role, answer.message.content) == ("assistant", "assistant", HELLO)
    assert (answer.done, answer.done_reason) == (True, "stop")
    assert (answer.prompt_eval_count, answer.eval_count) == (1, 7)
    assert answer.total_duration >= answer.prompt_eval_duration + answer.eval_duration > 0
    assert answer.created_at.endswith("Z")


def test_stream_is_ndjson(serving: Running) -> None:
    """It is what a request asks for that does not say."""
    answer = httpx.post(f"{serving.url}/api/chat", json={"model": "assistant", "messages": said("hi")})
    assert answer.headers["content-type"] == "application/x-ndjson"
    *lines, last = [json.loads(line) for line in answer.text.splitlines()]
    assert [line["message"]["content"] for line in lines] == ["Hello", " ", "wörld ", "🎉"]
    assert {line["done"] for line in lines} == {False}
    assert last["message"] == {"role": "assistant", "content": ""}
    assert last.keys() >= {"done_reason", "total_duration", "load_duration", "eval_duration"}


async def test_the_asynchronous_client(serving: Running) -> None:
    async with ollama.AsyncClient(host=serving.url, timeout=20) as asked:
        answer = await asked.chat(model="assistant", messages=said("hi"))
        assert answer.message.content == HELLO
        parts = await asked.chat(model="assistant", messages=said("hi"), stream=True)
        assert "".join([part.message.content async for part in parts]) == HELLO
        parts = await asked.generate(model="continuing", prompt="a b", stream=True)
        assert "".join([part.response async for part in parts]) == "a b "
        assert {model.model for model in (await asked.list()).models} == {"assistant", "continuing"}


def test_a_completion(serving: Running) -> None:
    asked = {"model": "continuing", "prompt": "a b"}
    answer = client(serving.url).generate(**asked)
    assert (answer.response, answer.done, answer.eval_count) == ("a b ", True, 2)
    *parts, last = client(serving.url).generate(**asked, stream=True)
    assert [part.response for part in parts] == ["a ", "b "]
    assert (last.response, last.done_reason, last.eval_count) == ("", "stop", 2)
    system = client(serving.url).generate(**asked, system="be kind")
    assert system.response == "system: be kind\nuser: a b\nassistant: "
    raw = client(serving.url).generate(**asked, raw=True)
    assert raw.response == "a b "
    with pytest.raises(ollama.ResponseError, match="system"):
        client(serving.url).generate(**asked, system="be kind", raw=True)
    messages = client(serving.url).generate(model="assistant", prompt="messages", system="s")
    assert json.loads(messages.response) == [{"role": "system", "content": "s"}, *said("messages")]


@pytest.mark.parametrize("stream", [True, False])
def test_request_without_prompt_only_loads_model(serving: Running, stream: bool) -> None:
    """Ollama's command sends an empty prompt; the client for Python leaves it out."""
    for empty in (None, ""):
        answer = client(serving.url).generate(model="continuing", prompt=empty, stream=stream)
        [loaded] = answer if stream else [answer]
        assert (loaded.response, loaded.done, loaded.done_reason) == ("", True, "load")
    answer = client(serving.url).chat(model="assistant", messages=[], keep_alive=-1, stream=stream)
    [loaded] = answer if stream else [answer]
    assert (loaded.message.content, loaded.done, loaded.done_reason) == ("", True, "load")
    with pytest.raises(ollama.ResponseError, match="not found"):
        client(serving.url).generate(model="nobody", prompt="")


def test_messages_reach_model(serving: Running) -> None:
    turns = [
        {"role": "system", "content": "s"},
        {"role": "assistant", "tool_calls": [{"function": {"name": "weather", "arguments": CITY}}]},
        {"role": "tool", "content": "5", "tool_name": "weather"},
        *said("messages"),
    ]
    answer = client(serving.url).chat(model="assistant", messages=turns)
    function = {"name": "weather", "arguments": '{"city":"Zürich"}'}
    call = {"id": "call_1_0", "type": "function", "function": function}
    assert json.loads(answer.message.content) == [
        {"role": "system", "content": "s"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "5", "tool_call_id": "call_1_0", "name": "weather"},
        *said("messages"),
    ]


def test_images_reach_the_model(texts: Running) -> None:
    message = {"role": "user", "content": "what?", "images": [b"\x00\x01\xff"]}
    answer = client(texts.url).chat(model="messages", messages=[message])
    found = json.loads(answer.message.content)["inputs"]
    assert found["images"] == ["0001ff"]
    parts = [{"type": "text", "text": "what?"}, {"type": "image"}]
    assert json.loads(found["messages"][0]) == [{"role": "user", "content": parts}]


@pytest.mark.parametrize(
    ("said", "text", "names"),
    [
        ("once", "", ["weather"]),
        ("text first", "Let me look.", ["weather"]),
        ("both", "", ["weather", "time"]),
        ("mixed", "", ["weather", "time"]),
    ],
)
def test_tool_calls(serving: Running, said: str, text: str, names: list[str]) -> None:
    message = chat(serving, said, tools=TOOLS).message
    assert message.content == text
    assert [call.function.name for call in message.tool_calls] == names
    assert [dict(call.function.arguments) for call in message.tool_calls] == [CITY, {}][: len(names)]


def test_functions_are_tools(serving: Running) -> None:
    def weather(city: str) -> str:
        """Say the weather.

        Args:
            city: where
        """
        return city

    [call] = chat(serving, "once", tools=[weather]).message.tool_calls
    assert call.function.name == "weather"


@pytest.mark.parametrize(
    ("format", "given"),
    [
        ("json", {"type": "json_object"}),
        (SCHEMA, {"type": "json_schema", "json_schema": {"name": "output", "schema": SCHEMA}}),
    ],
)
def test_format_reaches_model(serving: Running, format: object, given: dict) -> None:
    assert json.loads(chat(serving, "hi", format=format).message.content) == {"format": given}


def test_options_reach_the_model(serving: Running) -> None:
    options = {
        "num_predict": 50,
        "temperature": 0.5,
        "top_k": 3,
        "top_p": 0.25,
        "seed": 7,
        "repeat_penalty": 1.5,
        "num_ctx": 4096,
        "num_gpu": 1,
    }
    given = json.loads(chat(serving, "parameters", options=options, keep_alive="5m").message.content)
    given.pop("headers", None)
    assert given == {
        "max_tokens": 50,
        "temperature": 0.5,
        "top_k": 3,
        "top_p": 0.25,
        "seed": 7,
        "repetition_penalty": 1.5,
    }


@pytest.mark.parametrize(
    ("options", "text", "reason"),
    [
        ({"num_predict": 2}, "Hello ", "length"),
        ({"num_predict": -1}, HELLO, "stop"),
        ({"stop": ["wör"]}, "Hello ", "stop"),
    ],
)
def test_done_reasons(serving: Running, options: dict, text: str, reason: str) -> None:
    answer = chat(serving, "hi", options=options)
    assert (answer.message.content, answer.done_reason) == (text, reason)


def test_log_probabilities(texts: Running) -> None:
    asked = {"model": "tokens", "messages": said("a b"), "logprobs": True, "top_logprobs": 2}
    whole = client(texts.url).chat(**asked)
    assert [each.token for each in whole.logprobs] == ["a", " b"]
    assert [each.token for each in whole.logprobs[1].top_logprobs] == [" b", " other"]
    streamed = client(texts.url).chat(**asked, stream=True)
    assert [each for part in streamed for each in part.logprobs or ()] == [*whole.logprobs]


def test_embeddings(texts: Running) -> None:
    asked = client(texts.url)
    answer = asked.embed(model="vectors", input=["a", "bcd"], truncate=True)
    assert [[*each] for each in answer.embeddings] == [[1, 3, 4, 0], [3, 3, 4, 0]]
    assert asked.embed(model="vectors", input="a", dimensions=1).embeddings == [[1.0]]
    assert [*asked.embeddings(model="vectors", prompt="ab").embedding] == [2, 3, 4, 0]
    with pytest.raises(ollama.ResponseError, match="returns texts, not vectors"):
        asked.embed(model="words", input="a")


def test_lists_models(serving: Running) -> None:
    asked = client(serving.url)
    assert {model.model for model in asked.list().models} == {"assistant", "continuing"}
    assert {model.model for model in asked.ps().models} == {"assistant", "continuing"}
    shown = asked.show("assistant:latest")
    assert shown.capabilities == ["completion", "tools", "vision"]
    named = dict.fromkeys(("general.name", "general.basename"), "assistant")
    assert shown.modelinfo == {**named, "general.architecture": "unknown"}
    assert asked.show("continuing").capabilities == ["completion"]
    assert httpx.get(f"{serving.url}/api/version").json()["version"]
    for name in ("nobody", "nobody:1"):
        with pytest.raises(ollama.ResponseError, match=r"there are models [a-z, ]+ \(status") as refused:
            asked.show(name)
    assert refused.value.status_code == 404
    too_much = httpx.post(f"{serving.url}/api/show", json={"model": "a" * 70000})
    assert too_much.status_code == 413


def test_head_request_shows_server_is_running(serving: Running) -> None:
    with httpx.Client(base_url=serving.url, timeout=20) as connection:
        answer = connection.head("/")
        assert (answer.status_code, answer.content) == (200, b"")
        assert connection.get("/api/version").json()["version"]  # no body is left on the connection


def test_model_by_version(texts: Running) -> None:
    for name in ("versions", "versions:1", "versions:latest"):
        answer = client(texts.url).chat(model=name, messages=said("hi"))
        assert (answer.model, answer.message.content) == (name, "all of hi")
        assert client(texts.url).show(name).modelinfo["general.name"] == "versions"


@pytest.mark.parametrize(
    ("changes", "status", "message"),
    [
        ({"model": "nobody"}, 404, "nobody not found"),
        ({"messages": "hi"}, 400, "messages: must be a list"),
        ({"messages": [{"role": "robot"}]}, 400, r"messages\[0\].role: must be one of"),
        ({"messages": [{"role": "user", "images": ["/etc/passwd"]}]}, 400, "is not valid base64"),
        ({"options": {"num_predict": 0}}, 400, "options.num_predict: must not be 0"),
        ({"options": {"temperature": 9}}, 400, "options.temperature: must be at most 2"),
        ({"think": True}, 400, "think: .* does not support thinking"),
        ({"format": "xml"}, 400, 'format: must be "json" or a JSON schema'),
        ({"model": "continuing", "format": "json"}, 400, "format: the model does not write json_object"),
        ({"model": "continuing", "tools": TOOLS}, 400, "tools: the model calls no tools"),
        ({"template": "{{ .Prompt }}"}, 400, "template: is not taken"),
        ({"messages": said("too long")}, 400, "the context"),
        ({"messages": said("fail")}, 500, "failed"),
    ],
)
def test_errors(serving: Running, changes: dict, status: int, message: str) -> None:
    body = {"model": "assistant", "messages": said("hi"), "stream": False, **changes}
    answer = httpx.post(f"{serving.url}/api/chat", json=body)
    with pytest.raises(ollama.ResponseError, match=message):
        raise ollama.ResponseError(answer.text, answer.status_code)
    assert answer.status_code == status
    assert answer.json().keys() == {"error"}
    assert "canary" not in answer.text


def test_client_raises_mid_stream_failure(serving: Running) -> None:
    pieces = []
    with pytest.raises(ollama.ResponseError, match="failed"):
        for part in client(serving.url).chat(model="assistant", messages=said("fail"), stream=True):
            pieces.append(part.message.content)
    assert pieces == ["one"]


@pytest.mark.parametrize("model", ["words", "blocking-words", "steps"])
def test_cancelled_stream_ends_model(texts: Running, model: str) -> None:
    text = prompt()
    options = {"endless": True}
    stream = client(texts.url).chat(model=model, messages=said(text), options=options, stream=True)
    next(stream)
    assert not texts.noted(f"finally {text}")
    stream.close()
    ended(texts, text)
    eventually(lambda: idle(texts))


async def test_abandoned_chat_ends_model(texts: Running) -> None:
    text = prompt()
    async with ollama.AsyncClient(host=texts.url, timeout=20) as asked:
        options = {"endless": True}
        waiting = asyncio.create_task(asked.chat(model="words", messages=said(text), options=options))
        await asyncio.to_thread(eventually, lambda: texts.noted(f"start {text}"), 10)
        waiting.cancel()
        await asyncio.to_thread(ended, texts, text)


def test_silent_stream_sends_empty_chunks(start, tmp_path: Path) -> None:
    from tests.texts import write_text_models

    running = start(write_text_models(tmp_path / "models", sse_heartbeat=0.1))
    body = {"model": "words", "messages": said("a b"), "options": {"pause": 0.5}}
    answer = httpx.post(f"{running.url}/api/chat", json=body, timeout=20)
    *lines, last = [json.loads(line) for line in answer.text.splitlines()]
    assert last["done"]
    assert len(lines) > 2
    assert [text for line in lines if (text := line["message"]["content"])] == ["a", " b"]


SERVED = {"chat", "generate", "embed", "embeddings", "list", "ps", "show", "close"}
UNSERVED = {
    **dict.fromkeys(
        ("pull", "push", "create", "create_blob", "copy", "delete"), "models come from folders, not clients"
    ),
    **dict.fromkeys(("web_search", "web_fetch"), "they ask ollama.com, whatever the host"),
    "systemone": "it asks a kind of model that only Ollama serves",
}
"""Public methods of the client that no test here calls, and why."""


def test_every_client_method_is_tested_or_excused() -> None:
    functions = inspect.getmembers(ollama.Client, inspect.isfunction)
    public = {name for name, _ in functions if not name.startswith("_")}
    assert public == SERVED | UNSERVED.keys()

"""Fields that clients of other servers send, over each API: how much to think, stop strings, lists of models."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx
import pytest

from tests.serving import Running

APP = """
from collections.abc import Iterator
from inferstream import App, Token

app = App()

@app.model("halves")
def halves(prompt: str) -> Iterator[str]:
    yield from ["a\\ud83d", "\\ude00b", "c\\udc00", "d"]

@app.model("half")
def half(messages: str, tools: str = "") -> Iterator[Token]:
    yield Token("é")
    yield Token(tool_calls=[{"id": "c", "function": {"name": "f", "arguments": \'{"a": "\\udc00"}\'}}])

@app.model("words")
def words(prompt: str) -> Iterator[str]:
    yield from ["one ", "two ", "three ", "four"]

@app.model("echo", reasoning_format="think")
def echo(messages: str, tools: str = "", chat_template_kwargs: str = "") -> Iterator[str]:
    yield "<think>hm</think>"
    yield chat_template_kwargs or "none"
"""
SAID = [{"role": "user", "content": "hello"}]
APIS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"messages": SAID}),
    "responses": ("/v1/responses", {"input": "hello"}),
    "Anthropic": ("/v1/messages", {"messages": SAID, "max_tokens": 99}),
    "Ollama": ("/api/chat", {"messages": SAID}),
}
PROMPTS: dict[str, tuple[str, dict[str, Any]]] = {
    "completions": ("/v1/completions", {"prompt": "hello"}),
    "Ollama prompt": ("/api/generate", {"prompt": "hello"}),
    "TGI": ("/", {"inputs": "hello"}),
    "prompt": ("/generate", {"prompt": "hello"}),
}


def served(folder: Path, *flags: str) -> Iterator[str]:
    (folder / "app.py").write_text(APP)
    running = Running(folder, *flags, target=str(folder / "app.py"))
    yield running.url
    assert running.stop() == 0, running.text()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    yield from served(tmp_path_factory.mktemp("fields"))


@pytest.fixture(scope="module")
def worker_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    yield from served(tmp_path_factory.mktemp("workers"), "--workers", "1")


@pytest.fixture(params=["url", "worker_url"], ids=["in the server", "in a worker"])
def place(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param))


def post(url: str, api: str, model: str, **fields: Any) -> httpx.Response:
    path, body = (APIS | PROMPTS)[api]
    return httpx.post(f"{url}{path}", json={"model": model, "stream": False, **body, **fields}, timeout=20)


@pytest.mark.parametrize("stream", [False, True])
def test_truncated_character_does_not_end_text(place: str, stream: bool) -> None:
    for api in APIS | PROMPTS:
        answer = post(place, api, "halves", stream=stream)
        assert answer.status_code == 200
        assert "😀b" in answer.text
        assert "c�" in answer.text
        assert "surrogates" not in answer.text


@pytest.mark.parametrize("api", APIS)
def test_truncated_character_does_not_end_tool_call(place: str, api: str) -> None:
    schema = {"type": "object"}
    tool = {
        "Anthropic": {"name": "f", "input_schema": schema},
        "responses": {"type": "function", "name": "f", "parameters": schema},
    }.get(api, {"type": "function", "function": {"name": "f", "parameters": schema}})
    for stream in (False, True):
        answer = post(place, api, "half", stream=stream, tools=[tool])
        assert (answer.status_code, "�" in answer.text) == (200, True), answer.text


def shown(api: str, document: dict[str, Any]) -> tuple[Any, bool]:
    """The options of the template, and whether the reasoning is shown."""
    if api == "responses":
        texts = [part["text"] for item in document["output"] for part in item.get("content") or ()]
        return texts[-1], any(item["type"] == "reasoning" for item in document["output"])
    if api == "Anthropic":
        return document["content"][-1]["text"], document["content"][0]["type"] == "thinking"
    message = document["message"] if api == "Ollama" else document["choices"][0]["message"]
    return message["content"], bool(message.get("thinking") or message.get("reasoning_content"))


OFF, ON = {"enable_thinking": False}, {"enable_thinking": True}
FIELDS: list[tuple[dict[str, Any], dict[str, Any] | None]] = [
    ({"reasoning_effort": "high"}, {"reasoning_effort": "high"}),
    ({"reasoning_effort": "none"}, {"reasoning_effort": "none", **OFF}),
    ({"reasoning": {"effort": "low"}}, {"reasoning_effort": "low"}),
    ({"reasoning": {"enabled": False}}, OFF),
    ({"reasoning": {"enabled": True, "effort": "low"}}, {"reasoning_effort": "low", **ON}),
    ({"reasoning": {"exclude": True}}, None),
    ({"include_reasoning": False}, None),
    ({"think": False}, OFF),
    ({"think": "low"}, {"reasoning_effort": "low"}),
    ({"thinking": {"type": "disabled"}}, OFF),
    ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, ON),
    ({"enable_thinking": False}, OFF),
    ({"chat_template_kwargs": OFF, "think": True}, OFF),
]


@pytest.mark.parametrize("api", APIS)
def test_reasoning_effort_has_one_meaning(url: str, api: str) -> None:
    for fields, options in FIELDS:
        asks = {"reasoning": {}} if api == "responses" and "reasoning" not in fields else {}
        document = post(url, api, "echo", **asks, **fields).json()
        text, is_shown = shown(api, document)
        assert (text if text == "none" else json.loads(text)) == (options or "none"), fields
        if api == "chat":
            assert is_shown is not (options is None), fields
    refused = post(url, api, "echo", reasoning={"max_tokens": 5})
    assert refused.status_code == 400
    assert "reasoning.max_tokens" in refused.text


def test_claude_code_sets_reasoning_effort(url: str) -> None:
    text, _ = shown("Anthropic", post(url, "Anthropic", "echo", output_config={"effort": "max"}).json())
    assert json.loads(text) == {"reasoning_effort": "max"}


REFUSED: dict[str, Any] = {
    "typical_p": 0.4,
    "repeat_last_n": 3,
    "mirostat": 2,
    "num_beams": 4,
    "use_beam_search": True,
    "best_of": 4,
    "n": 129,
}


@pytest.mark.parametrize("name", REFUSED)
def test_unsupported_options_are_refused_by_name(url: str, name: str) -> None:
    for api in APIS | PROMPTS:
        option = {name: REFUSED[name]}
        within = {"parameters": option} if api == "TGI" else option
        answer = post(url, api, "words", **within)
        assert (answer.status_code in (400, 422), name in answer.text) == (True, True), (name, answer.text)


@pytest.mark.parametrize("name", ["stop", "stop_sequences"])
def test_stop_strings_are_applied_or_refused(url: str, name: str) -> None:
    for api in APIS | PROMPTS:
        for stream in (False, True):
            stop = {name: ["three"]}
            answer = post(
                url, api, "words", stream=stream, **({"parameters": stop} if api == "TGI" else stop)
            )
            if answer.status_code == 200:
                assert ("two" in answer.text, "four" in answer.text) == (True, False), api
            else:
                assert (answer.status_code, name in answer.text) == (400, True), api


def test_unlimited_can_be_a_number(url: str) -> None:
    for name in ("max_tokens", "max_completion_tokens"):
        for api in ("chat", "completions"):
            assert "four" in post(url, api, "words", **{name: -1}).text
            assert post(url, api, "words", **{name: 0}).status_code == 400


def test_codex_reads_model_list(url: str) -> None:
    models = httpx.get(f"{url}/v1/models", params={"client_version": "0.171.0"}).json()
    assert models["models"] == []  # it wants descriptions of its own kind there
    assert [model["id"] for model in models["data"]] == ["echo", "half", "halves", "words"]
    assert httpx.get(f"{url}/v1/models").json()["models"] == ["echo", "half", "halves", "words"]


def test_anthropic_tool_runner_continues_without_thread(url: str) -> None:
    answer = post(url, "Anthropic", "words", thread={"type": "create"})
    assert answer.status_code == 400
    assert answer.json()["error"]["details"] == {"error_code": "thread_unsupported_request"}
    if not hasattr(anthropic, "beta_tool"):
        pytest.skip("needs a library with a runner of tools")

    with anthropic.Anthropic(base_url=url, api_key="none", max_retries=0) as client:
        runner = client.beta.messages.tool_runner(model="words", max_tokens=9, tools=[], messages=SAID)
        assert runner.until_done().content[0].text == "one two three four"


def test_item_of_other_process_is_named(url: str) -> None:
    answer = post(url, "responses", "words", input=[{"type": "item_reference", "id": "msg_of_another"}])
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "input[0].id"
    assert "send the item itself" in answer.text

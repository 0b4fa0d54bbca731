"""What clients of language models need beyond the references: each row is what a public report says is right."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.serving import Running

APP = """
import json
from collections.abc import Iterator
from inferstream import App, Token

app = App()
CALLS = [
    {"id": f"call_{index}", "type": "function", "function": {"name": "f", "arguments": "{}"}} for index in (0, 1)
]

@app.model("words")
def words(prompt: str) -> Iterator[str]:
    yield "a\\u2028b"
    yield "\\u0085 é 🎉"
    yield "c\\u2029"

@app.model("echo", reasoning_format="think")
def echo(messages: str, tools: str = "") -> Iterator[str]:
    yield messages

@app.model("tools")
def tools(messages: str, tools: str = "") -> Iterator[str]:
    yield tools

@app.model("calls")
def calls(messages: str, tools: str = "") -> Iterator[Token]:
    yield Token(tool_calls=CALLS)

@app.model("rendered", chat_template="{% for m in messages %}[{{ m.role }}|{{ m.reasoning_content }}]{% endfor %}")
def rendered(prompt: str) -> Iterator[str]:
    yield prompt

@app.model("vectors")
def vectors(texts: list[str]) -> list[list[float]]:
    return [[0.5, 1.0] for _ in texts]
"""
SAID = [{"role": "user", "content": "hello"}]
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
RESULT = {"role": "tool", "tool_call_id": "c", "content": "1"}
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("reports") / "app"
    folder.mkdir()
    (folder / "app.py").write_text(APP)
    (folder / "settings.json").write_text('{"default_model": "words"}')
    running = Running(folder, target=str(folder / "app.py"))
    yield running.url
    assert running.stop() == 0, running.text()


def asked(url: str, path: str, body: dict[str, Any]) -> Any:
    answer = httpx.post(f"{url}{path}", json=body, timeout=20)
    assert answer.status_code == 200, answer.text
    return answer.json()


STREAMS = [
    ("/v1/chat/completions", {"messages": SAID}),
    ("/v1/completions", {"prompt": "hello"}),
    ("/v1/responses", {"input": "hello"}),
    ("/v1/messages", {"messages": SAID, "max_tokens": 9}),
    ("/api/chat", {"messages": SAID}),
    ("/api/generate", {"prompt": "hello"}),
    ("/generate_stream", {"inputs": "hello"}),
    ("/generate", {"prompt": "hello"}),
    ("/v2/models/words/generate_stream", {"prompt": "hello"}),
    ("/v2/models/words/infer_stream", {"inputs": [{"name": "prompt", "datatype": "BYTES", "shape": [1], "data": ["hello"]}]}),
]  # fmt: skip


@pytest.mark.parametrize(("path", "body"), STREAMS, ids=[path for path, _ in STREAMS])
def test_line_reading_client_gets_complete_events(url: str, path: str, body: dict[str, Any]) -> None:
    of_model = {} if path.startswith("/v2") else {"model": "words", "stream": True}
    documents = []
    with httpx.stream("POST", f"{url}{path}", json={**body, **of_model}, timeout=20) as answer:
        assert answer.status_code == 200
        for line in answer.iter_lines():  # by `str.splitlines`
            data = line.removeprefix("data:").strip()
            if data and data != "[DONE]" and not line.startswith(("event:", ":")):
                documents.append(json.loads(data))
    said = json.dumps(documents, ensure_ascii=False)
    assert all(end in said for end in ("a\u2028b", "\u0085 é 🎉", "c\u2029"))


THOUGHT = "six by seven"
BLOCKS = [
    {"type": "thinking", "thinking": "six by", "signature": "s"},
    {"type": "redacted_thinking", "data": "x"},
]
BLOCKS += [{"type": "thinking", "thinking": " seven", "signature": "s"}]
USE = {"type": "tool_use", "id": "c", "name": "f", "input": {}}
ITEMS = [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}]
ITEMS += [{"type": "function_call_output", "call_id": "c", "output": "1"}]
TEXT = {"role": "assistant", "content": "42"}


def in_items(part: str, *items: dict[str, Any]) -> dict[str, Any]:
    kind = {"content": "reasoning_text", "summary": "summary_text"}[part]
    thoughts = {"type": "reasoning", "id": "rs_1", "summary": [], part: [{"type": kind, "text": THOUGHT}]}
    return {"input": [*SAID, thoughts, *items]}


def in_blocks(*more: dict[str, Any]) -> dict[str, Any]:
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "1"}]}
    turn = {"role": "assistant", "content": [*BLOCKS, *more]}
    return {"max_tokens": 900, "messages": [*SAID, turn, result if more == (USE,) else SAID[0]]}


HISTORIES = {
    "chat, reasoning_content": ("/v1/chat/completions", {"messages": [*SAID, {**TEXT, "reasoning_content": THOUGHT}, *SAID]}),
    "chat, reasoning": ("/v1/chat/completions", {"messages": [*SAID, {"role": "assistant", "content": None, "tool_calls": [CALL], "reasoning": THOUGHT}, RESULT]}),
    "chat, both": ("/v1/chat/completions", {"messages": [*SAID, {**TEXT, "reasoning": "other", "reasoning_content": THOUGHT}, *SAID]}),
    "responses, call": ("/v1/responses", in_items("content", *ITEMS)),
    "responses, text": ("/v1/responses", in_items("summary", TEXT, *SAID)),
    "responses, call behind a text": ("/v1/responses", {"input": [TEXT, *in_items("content", *ITEMS)["input"][1:]]}),
    "Anthropic, call": ("/v1/messages", in_blocks(USE)),
    "Anthropic, text": ("/v1/messages", in_blocks({"type": "text", "text": "42"})),
    "Ollama, call": ("/api/chat", {"stream": False, "messages": [*SAID, {"role": "assistant", "content": "", "thinking": THOUGHT, "tool_calls": [CALL]}, RESULT]}),
    "Ollama, text": ("/api/chat", {"stream": False, "messages": [*SAID, {**TEXT, "thinking": THOUGHT}, *SAID]}),
}  # fmt: skip


@pytest.mark.parametrize("model", ["echo", "rendered"])
@pytest.mark.parametrize("name", HISTORIES)
def test_reasoning_of_earlier_messages_reaches_model(url: str, model: str, name: str) -> None:
    path, body = HISTORIES[name]
    said = json.dumps(asked(url, path, {**body, "model": model}))
    expected = f"[assistant|{THOUGHT}]" if model == "rendered" else f'\\"reasoning_content\\":\\"{THOUGHT}\\"'
    assert said.replace("\\\\", "\\").count(expected) == 1, said
    assert said.count(THOUGHT) in (1, 2)  # a chat keeps its own field too


@pytest.mark.parametrize("behind", [[], SAID], ids=["nothing", "a user"])
def test_reasoning_without_answer_is_dropped(url: str, behind: list[Any]) -> None:
    assert THOUGHT not in json.dumps(
        asked(url, "/v1/responses", {**in_items("content", *behind), "model": "echo"})
    )


BILLING = "x-anthropic-billing-header: cc_version=2.1.100.7b4; cc_entrypoint=cli; cch=eb6c6;"


@pytest.mark.parametrize(
    ("system", "expected"),
    [
        ([BILLING, "Be brief."], "Be brief."),
        ([f"{BILLING}\n", "Be brief."], "Be brief."),
        ([f"{BILLING}\nBe", " brief."], "Be brief."),
        (f"{BILLING}\nBe brief.", "Be brief."),
        ([f"Say {BILLING}"], f"Say {BILLING}"),
        ([BILLING], None),
        ([], None),
        ("", None),
    ],
)
def test_volatile_line_is_not_part_of_prompt(url: str, system: list[str] | str, expected: str | None) -> None:
    given = system if isinstance(system, str) else [{"type": "text", "text": text} for text in system]
    body = {"model": "echo", "max_tokens": 900, "system": given, "messages": SAID}
    [block] = asked(url, "/v1/messages", body)["content"]
    first, *rest = json.loads(block["text"])
    assert [first, *rest] == [*([{"role": "system", "content": expected}] if expected else []), *SAID]


@pytest.mark.parametrize("stream", [False, True])
def test_ollama_calls_have_ids_and_numbers(url: str, stream: bool) -> None:
    body = {"model": "calls", "messages": SAID, "tools": TOOLS, "stream": stream}
    lines = [json.loads(line) for line in httpx.post(f"{url}/api/chat", json=body).text.splitlines()]
    calls = [call for line in lines for call in line["message"].get("tool_calls", ())]
    assert [(call["id"], call["function"]["index"]) for call in calls] == [("call_0", 0), ("call_1", 1)]


@pytest.mark.parametrize(("keep", "reason"), [({}, "load"), ({"keep_alive": "5m"}, "load"), ({"keep_alive": 0}, "unload")])  # fmt: skip
@pytest.mark.parametrize(("path", "body"), [("/api/chat", {"messages": []}), ("/api/generate", {})])
def test_request_without_prompt_loads_or_unloads(
    url: str, path: str, body: dict[str, Any], keep: dict[str, Any], reason: str
) -> None:
    assert asked(url, path, {"model": "words", **body, **keep})["done_reason"] == reason


def test_model_has_base_name_for_copilot(url: str) -> None:
    assert asked(url, "/api/show", {"model": "words"})["model_info"]["general.basename"] == "words"


@pytest.mark.parametrize(
    ("body", "vectors"),
    [
        ({"input": []}, 0),
        ({"input": ["a", "b"], "truncate": True}, 2),
        ({"input": "a", "truncate": False}, 1),
    ],
)
def test_embeddings_for_ollama_clients(url: str, body: dict[str, Any], vectors: int) -> None:
    assert len(asked(url, "/api/embed", {"model": "vectors", **body})["embeddings"]) == vectors


@pytest.mark.parametrize("stream", [False, True])
def test_zero_requests_no_log_probabilities(url: str, stream: bool) -> None:
    body = {"model": "words", "messages": SAID, "logprobs": False, "top_logprobs": 0, "stream": stream}
    assert httpx.post(f"{url}/v1/chat/completions", json=body).status_code == 200


FLAT = {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": None}
NAMED = {"type": "function", "name": "f"}


@pytest.mark.parametrize(
    "more",
    [
        {"tools": [FLAT]},
        {"tools": [FLAT, {"type": "function", "function": {"name": "g"}}], "tool_choice": NAMED},
        {"tools": TOOLS, "tool_choice": NAMED},
        {"tools": TOOLS, "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [NAMED]}}},
    ],
    ids=["tool", "both forms", "choice", "allowed"],
)  # fmt: skip
def test_chat_accepts_functions_in_responses_format(url: str, more: dict[str, Any]) -> None:
    body = {"model": "tools", "messages": SAID, **more}
    offered = json.loads(asked(url, "/v1/chat/completions", body)["choices"][0]["message"]["content"])
    assert offered[0] == TOOLS[0]


@pytest.mark.parametrize("stream", [False, True])
def test_open_responses_clients_get_numbers(url: str, stream: bool) -> None:
    body = {"model": "words", "input": "hello", "stream": stream, "top_p": 0.5}
    text = httpx.post(f"{url}/v1/responses", json=body).text
    response = json.loads(text.strip().rpartition("data: ")[2])
    response = response["response"] if stream else response
    names = ("temperature", "top_p", "presence_penalty", "frequency_penalty")
    assert [response[name] for name in names] == [1, 0.5, 0, 0]


NEUTRAL = {
    "use_beam_search": False,
    "min_tokens": 0,
    "ignore_eos": False,
    "mirostat": 0,
    "length_penalty": 1.0,
}
NEUTRAL |= {"typical_p": 1.0, "best_of": 1, "echo": False, "include_stop_str_in_output": False}
NEUTRAL |= {"no_stop_trim": False, "return_hidden_states": False}  # vllm-router adds them to each request


@pytest.mark.parametrize(
    ("path", "body", "within"),
    [
        ("/v1/chat/completions", {"messages": SAID}, ""),
        ("/v1/responses", {"input": "hello"}, ""),
        ("/v1/messages", {"messages": SAID, "max_tokens": 9}, ""),
        ("/api/chat", {"messages": SAID, "stream": False}, "options"),
    ],
    ids=["chat", "responses", "Anthropic", "Ollama"],
)
def test_function_accepts_neutral_options(url: str, path: str, body: dict[str, Any], within: str) -> None:
    asked(url, path, {"model": "words", **body, **({within: NEUTRAL} if within else NEUTRAL)})
    for name in NEUTRAL:
        other = {name: 2}
        answer = httpx.post(
            f"{url}{path}", json={"model": "words", **body, **({within: other} if within else other)}
        )
        assert answer.status_code == 400, answer.text
        assert name in answer.text


@pytest.mark.parametrize(
    ("keep", "left"), [({}, 1), ({"keep": {"type": "thinking_turns", "value": 2}}, 2), ({"keep": "all"}, 3)]
)
def test_anthropic_client_clears_reasoning(url: str, keep: dict[str, Any], left: int) -> None:
    said = {"type": "text", "text": "42"}
    turn = {"role": "assistant", "content": [{"type": "thinking", "thinking": THOUGHT}, said]}
    edits = {"edits": [{"type": "clear_thinking_20251015", **keep}]}
    body = {"model": "echo", "max_tokens": 900, "messages": [*SAID, turn] * 3 + SAID}
    [block] = asked(url, "/v1/messages", {**body, "context_management": edits})["content"]
    turns = [message for message in json.loads(block["text"]) if message["role"] == "assistant"]
    assert ["reasoning_content" in each for each in turns] == [False] * (3 - left) + [True] * left

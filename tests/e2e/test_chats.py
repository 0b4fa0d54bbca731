"""Chats as the clients of the OpenAI, Anthropic and Ollama APIs send them, for functions in the server and in workers."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.plugins.text.model_families import FAMILIES
from tests.serving import Running

APP = """
import json
from collections.abc import Iterator

from families import FAMILIES, TAGS
from inferstream import App

app = App()


def show(family, template):
    @app.model(family, chat_template=template, tool_format="none", reasoning_format="none")
    def shown(prompt: str) -> Iterator[str]:
        yield prompt


for family, template in FAMILIES.items():
    show(family, template)
show("tags", TAGS)


@app.model("plain", tool_format="none", reasoning_format="none")
def plain(prompt: str) -> Iterator[str]:
    yield prompt


@app.model("tools", chat_template="{{ tools | tojson }}", tool_format="none", reasoning_format="none")
def with_tools(prompt: str, tools: str = "") -> Iterator[str]:
    yield prompt


@app.model("echo", tool_format="hermes", reasoning_format="none")
def echo(messages: str, tools: str = "") -> Iterator[str]:
    yield json.dumps({"messages": json.loads(messages), "tools": json.loads(tools or "[]")})


@app.model("thinker", chat_template=TAGS, tool_format="none", reasoning_format="think_open")
def thinker(prompt: str) -> Iterator[str]:
    yield "Two."


@app.model("options", tool_format="none", reasoning_format="none")
def options(messages: str, chat_template_kwargs: str = "") -> Iterator[str]:
    yield chat_template_kwargs


@app.model("agent", tool_format="hermes", reasoning_format="none")
def agent(messages: str, tools: str = "") -> Iterator[str]:
    chat = json.loads(messages)
    if chat[-1]["role"] == "tool":
        yield json.dumps(chat)
    else:
        name = json.loads(tools)[-1]["function"]["name"]
        yield '<tool_call>\\n{"name": "' + name
        yield '", "arguments": {"city": "Rome"}}\\n</tool_call>'
"""

TAGS = """{% for m in messages %}{{ '<|' + m.role + '|>' + m.content + '<|end|>' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>' }}{{ '' if enable_thinking | default(true) else '<think></think>' }}{% endif %}"""

ASK = [{"role": "user", "content": "a list"}]
BEGUN = [*ASK, {"role": "assistant", "content": "1. apples\n2."}]
CONTINUED = "<|user|>a list<|end|><|assistant|>1. apples\n2."
FUNCTION = {"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {}}}


@pytest.fixture(scope="module")
def serving(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("chats")
    (folder / "app.py").write_text(APP)
    (folder / "families.py").write_text(f"FAMILIES = {FAMILIES!r}\nTAGS = {TAGS!r}\n")
    running = Running(
        folder, target=str(folder / "app.py"), within=120, INFERSTREAM_PARALLEL_WORKERS=str(workers)
    )
    yield running
    assert running.stop() == 0, running.text()


def post(server: Running, path: str, **body: Any) -> httpx.Response:
    return httpx.post(server.url + path, json=body, timeout=30)


def text_of(server: Running, path: str, model: str, stream: bool = False, **body: Any) -> str:
    """The text of an answer of any API."""
    more = {"max_tokens": 4000} if path == "/v1/messages" else {}
    found = post(server, path, model=model, stream=stream, **more, **body)
    assert found.status_code == 200, found.text
    if not stream:
        answer = found.json()
        if path == "/v1/chat/completions":
            return answer["choices"][0]["message"]["content"]
        if path == "/v1/messages":
            return answer["content"][0]["text"]
        return (
            answer["message"]["content"] if path == "/api/chat" else answer["output"][0]["content"][0]["text"]
        )
    lines = [
        line.removeprefix("data: ") for line in found.text.splitlines() if line.startswith(("data: {", "{"))
    ]
    text = ""
    for each in map(json.loads, lines):
        for choice in each.get("choices") or ():
            text += choice["delta"].get("content") or ""
        delta = each.get("delta") or ""
        text += delta if isinstance(delta, str) else delta.get("text", "")
        text += (each.get("message") or {}).get("content") if path == "/api/chat" else ""
    return text


HISTORIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {
        "messages": [
            {"role": "developer", "content": "rules"},
            {"role": "user", "content": "ask"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
        ]
    },
    "/v1/messages": {
        "system": [{"type": "text", "text": "rules"}],
        "messages": [
            {"role": "user", "content": "ask"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Rome"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "sunny"}]},
        ],
    },
    "/v1/responses": {
        "instructions": "rules",
        "input": [
            {"role": "user", "content": "ask"},
            {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city": "Rome"}'},
            {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
        ],
    },
    "/api/chat": {
        "messages": [
            {"role": "system", "content": "rules"},
            {"role": "user", "content": "ask"},
            {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "weather", "arguments": {"city": "Rome"}}}]},
            {"role": "tool", "tool_name": "weather", "content": "sunny"},
        ]
    },
}  # fmt: skip


@pytest.mark.parametrize("path", HISTORIES)
@pytest.mark.parametrize(
    "family", ["qwen2.5", "qwen3.5", "llama3.1", "mistral", "gpt-oss", "deepseek", "glm4.5"]
)
def test_history_with_call_renders_family_prompt(serving: Running, family: str, path: str) -> None:
    prompt = text_of(serving, path, family, **HISTORIES[path])
    assert prompt == text_of(serving, path, family, stream=True, **HISTORIES[path])
    assert all(fact in prompt for fact in ("rules", "ask", "weather", "city", "Rome", "sunny"))
    assert '\\"city' not in prompt
    assert "{'city" not in prompt


THOUGHTS: dict[str, list[dict[str, Any]]] = {
    "/v1/chat/completions": [{"role": "assistant", "content": "yes", "reasoning_content": "because"}],
    "/v1/messages": [
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "because", "signature": "s"}, {"type": "text", "text": "yes"}]},
    ],
    "/v1/responses": [
        {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "because"}]},
        {"role": "assistant", "content": [{"type": "output_text", "text": "yes"}]},
    ],
    "/api/chat": [{"role": "assistant", "content": "yes", "thinking": "because"}],
}  # fmt: skip


@pytest.mark.parametrize("path", THOUGHTS)
def test_prompt_contains_reasoning_of_earlier_messages(serving: Running, path: str) -> None:
    name = "input" if path == "/v1/responses" else "messages"
    turns = [*ASK, *THOUGHTS[path], {"role": "user", "content": "more"}]
    prompt = text_of(serving, path, "qwen3.5", **{name: turns})
    assert "<|im_start|>assistant\n<think>because</think>yes<|im_end|>" in prompt
    echoed = json.loads(text_of(serving, path, "echo", **{name: turns}))["messages"]
    assert echoed[1] == {"role": "assistant", "content": "yes", "reasoning_content": "because"}


def test_every_api_renders_same_prompt(serving: Running) -> None:
    for family in ("qwen2.5", "qwen3.5", "llama3.1"):
        assert len({text_of(serving, path, family, **body) for path, body in HISTORIES.items()}) == 1


@pytest.mark.parametrize("stream", [False, True])
def test_partial_assistant_message_is_continued(serving: Running, stream: bool) -> None:
    more = {"continue_final_message": True, "add_generation_prompt": False}
    chat = "/v1/chat/completions"
    assert text_of(serving, chat, "tags", stream, messages=BEGUN, **more) == CONTINUED
    assert text_of(serving, "/v1/messages", "tags", stream, messages=BEGUN) == CONTINUED
    assert text_of(serving, "/api/chat", "tags", stream, messages=BEGUN) == CONTINUED
    assert (
        text_of(serving, chat, "plain", stream, messages=BEGUN, **more)
        == "user: a list\nassistant: 1. apples\n2."
    )
    assert text_of(serving, chat, "tags", stream, messages=BEGUN).endswith("2.<|end|><|assistant|>")
    ended = text_of(serving, chat, "tags", stream, messages=ASK, add_generation_prompt=False)
    assert ended == "<|user|>a list<|end|>"


def test_impossible_continuation_is_refused(serving: Running) -> None:
    both = post(
        serving,
        "/v1/chat/completions",
        model="tags",
        messages=BEGUN,
        continue_final_message=True,
        add_generation_prompt=True,
    )
    assert (both.status_code, both.json()["error"]["param"]) == (400, "continue_final_message")
    user = post(serving, "/v1/chat/completions", model="tags", messages=ASK, continue_final_message=True)
    assert (user.status_code, user.json()["error"]["param"]) == (400, "messages")
    call = HISTORIES["/v1/messages"]["messages"][:2]
    assert post(serving, "/v1/messages", model="tags", messages=call, max_tokens=9).status_code == 400


THINKING_OFF = {
    "/v1/chat/completions": [
        {"messages": ASK, "chat_template_kwargs": {"enable_thinking": False}},
        {"messages": ASK, "enable_thinking": False},
        {"messages": ASK, "reasoning_effort": "none"},
    ],
    "/v1/messages": [
        {"messages": ASK, "thinking": {"type": "disabled"}},
        {"messages": ASK, "chat_template_kwargs": {"enable_thinking": False}},
    ],
    "/v1/responses": [
        {"input": "a list", "reasoning": {"effort": "none"}},
        {"input": "a list", "chat_template_kwargs": {"enable_thinking": False}},
    ],
    "/api/chat": [{"messages": ASK, "think": False}],
}


@pytest.mark.parametrize("path", THINKING_OFF)
def test_thinking_can_be_disabled(serving: Running, path: str) -> None:
    for body in THINKING_OFF[path]:
        for stream in (False, True):
            assert text_of(serving, path, "tags", stream, **body).endswith("<|assistant|><think></think>"), (
                body
            )


@pytest.mark.parametrize("stream", [False, True])
def test_empty_thinking_block_is_no_reasoning(serving: Running, stream: bool) -> None:
    off = {"chat_template_kwargs": {"enable_thinking": False}}
    for body in ({"messages": ASK, **off}, {"messages": BEGUN, "continue_final_message": True}):
        assert text_of(serving, "/v1/chat/completions", "thinker", stream, **body) == "Two."
    assert text_of(serving, "/v1/chat/completions", "thinker", stream, messages=ASK) == ""


def test_template_options_reach_only_models_that_declare_them(serving: Running) -> None:
    wanted = {"chat_template_kwargs": {"enable_thinking": False}}
    chat = "/v1/chat/completions"
    assert json.loads(text_of(serving, chat, "options", messages=ASK, **wanted)) == {"enable_thinking": False}
    for model in ("echo", "plain"):
        refused = post(serving, chat, model=model, messages=ASK, **wanted)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "chat_template_kwargs")
    wrong = post(serving, chat, model="tags", messages=ASK, chat_template_kwargs="no")
    assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "chat_template_kwargs")


def test_template_receives_tools(serving: Running) -> None:
    tools = [{"type": "function", "function": {"name": "weather"}}]
    shown = text_of(serving, "/v1/chat/completions", "tools", messages=ASK, tools=tools)
    assert json.loads(shown) == tools


SHELL = {**FUNCTION, "name": "shell", "description": "Runs a command.", "strict": False}
CODEX: dict[str, Any] = {
    "model": "echo",
    "instructions": "You are a coding agent.",
    "tool_choice": "auto",
    "parallel_tool_calls": False,
    "reasoning": {"effort": "medium", "summary": "auto"},
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "0199",
    "text": {"verbosity": "low"},
    "tools": [
        SHELL,
        {**FUNCTION, "name": "update_plan", "strict": False},
        {"type": "web_search", "external_web_access": False},
        {"type": "custom", "name": "apply_patch", "description": "d", "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}},
        {"type": "namespace", "name": "mcp__docs__", "description": "d", "tools": [{**FUNCTION, "name": "search"}]},
        {"type": "image_generation"},
        {"type": "local_shell"},
    ],
    "input": [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "rules"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "fix it"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": None, "encrypted_content": "e"},
        {"type": "function_call", "name": "shell", "arguments": '{"command":["ls"]}', "call_id": "c1"},
        {"type": "function_call_output", "call_id": "c1", "output": '{"output":"a.py","metadata":{"exit_code":0}}'},
        {"type": "function_call", "name": "search", "namespace": "mcp__docs__", "arguments": "{}", "call_id": "c2"},
        {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "found"}]},
        {"type": "custom_tool_call", "status": "completed", "call_id": "c3", "name": "apply_patch", "input": "*** Begin Patch"},
        {"type": "custom_tool_call_output", "call_id": "c3", "output": "Done"},
        {"type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "x"}},
        {"type": "local_shell_call", "call_id": "c4", "status": "completed", "action": {"type": "exec", "command": ["ls"]}},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "fixed"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "thanks"}]},
    ],
}  # fmt: skip
"""A request of Codex CLI, after the types in codex-rs/protocol/src/models.rs."""


@pytest.mark.parametrize("stream", [False, True])
def test_codex_request_works(serving: Running, stream: bool) -> None:
    body = {name: value for name, value in CODEX.items() if name != "model"}
    seen = json.loads(text_of(serving, "/v1/responses", "echo", stream, **body))
    assert [each["function"]["name"] for each in seen["tools"]] == [
        "shell",
        "update_plan",
        "apply_patch",
        "mcp__docs__search",
    ]
    assert "start: /.+/" in seen["tools"][2]["function"]["description"]
    roles = [each["role"] for each in seen["messages"]]
    assert roles == ["system", "developer", "user", *["assistant", "tool"] * 3, "assistant", "user"]
    called = [each["tool_calls"][0]["function"] for each in seen["messages"] if "tool_calls" in each]
    assert [each["name"] for each in called] == ["shell", "mcp__docs__search", "apply_patch"]
    assert json.loads(called[2]["arguments"]) == {"input": "*** Begin Patch"}
    for family in ("qwen3.5", "gpt-oss", "mistral", "llama3.1"):
        prompt = text_of(serving, "/v1/responses", family, stream, **{**body, "tools": []})
        assert all(
            fact in prompt for fact in ("coding agent", "rules", "fix it", "a.py", "found", "Done", "thanks")
        )


def output_of(server: Running, stream: bool, **body: Any) -> list[dict[str, Any]]:
    found = post(server, "/v1/responses", model="agent", stream=stream, **body)
    assert found.status_code == 200, found.text
    if not stream:
        return found.json()["output"]
    events = [json.loads(line[6:]) for line in found.text.splitlines() if line.startswith("data: ")]
    items = [each["item"] for each in events if each["type"] == "response.output_item.done"]
    assert events[-1]["response"]["output"] == items
    return items


@pytest.mark.parametrize("stream", [False, True])
def test_namespaced_call_has_both_names(serving: Running, stream: bool) -> None:
    space = {"type": "namespace", "name": "agents", "tools": [{**FUNCTION, "name": "spawn"}]}
    [call] = output_of(serving, stream, input="hi", tools=[SHELL, space])
    assert (call["type"], call["namespace"], call["name"]) == ("function_call", "agents", "spawn")
    assert json.loads(call["arguments"]) == {"city": "Rome"}
    [call] = output_of(serving, stream, input="hi", tools=[space, SHELL])
    assert call["name"] == "shell"
    assert "namespace" not in call


@pytest.mark.parametrize("stream", [False, True])
def test_earlier_items_are_referenced_by_id(serving: Running, stream: bool) -> None:
    asked = {"role": "user", "content": "weather?"}
    [call] = output_of(serving, stream, input=[asked], tools=[FUNCTION])
    reference = {"type": "item_reference", "id": call["id"]}
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "21"}
    [message] = output_of(serving, stream, input=[asked, reference, result], tools=[FUNCTION])
    seen = json.loads(message["content"][0]["text"])
    assert seen[1]["tool_calls"][0]["function"] == {"name": "weather", "arguments": call["arguments"]}
    again = [asked, {"type": "item_reference", "id": message["id"]}, reference, result]
    [message] = output_of(serving, stream, input=again, tools=[FUNCTION])
    assert [each["role"] for each in json.loads(message["content"][0]["text"])] == [
        "user",
        "assistant",
        "tool",
    ]


def test_unstored_item_is_named(serving: Running) -> None:
    [call] = output_of(serving, False, input="weather?", tools=[FUNCTION], store=False)
    for id in (call["id"], "fc_other"):
        found = post(serving, "/v1/responses", model="agent", input=[{"type": "item_reference", "id": id}])
        assert (found.status_code, found.json()["error"]["param"]) == (400, "input[0].id")
    [call] = output_of(serving, False, input="weather?", tools=[FUNCTION])
    found = post(serving, "/v1/responses", model="echo", input=[{"type": "item_reference", "id": call["id"]}])
    assert found.status_code == 400  # another model


CALLED = {
    "role": "assistant",
    "content": [{"type": "tool_use", "id": "t1", "name": "ToolSearch", "input": {}}],
}

BLOCKS: dict[str, tuple[dict[str, Any], str]] = {
    "tool_reference": ({"type": "tool_reference", "tool_name": "Bash"}, "Bash"),
    "search_result": (
        {
            "type": "search_result",
            "source": "s",
            "title": "T",
            "content": [{"type": "text", "text": "found"}],
        },
        "T\nfound",
    ),
    "document": (
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "read"}},
        "read",
    ),
    "document of blocks": (
        {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "read"}]}},
        "read",
    ),
}

RUN_BY_OTHERS: dict[str, tuple[dict[str, Any], str]] = {
    "web_search": (
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"type": "web_search_result", "url": "u", "title": "T", "encrypted_content": "secret"}]},
        "T",
    ),
    "web_search that failed": (
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": {"type": "web_search_tool_result_error", "error_code": "e"}},
        "",
    ),
    "web_fetch": (
        {"type": "web_fetch_tool_result", "tool_use_id": "s1", "content": {"type": "web_fetch_result", "content": {"type": "document", "source": {"type": "text", "data": "page"}}}},
        "page",
    ),
    "code_execution": (
        {"type": "bash_code_execution_tool_result", "tool_use_id": "s1", "content": {"type": "bash_code_execution_result", "stdout": "out", "stderr": "err", "return_code": 0}},
        "out\nerr",
    ),
    "mcp": ({"type": "mcp_tool_result", "tool_use_id": "s1", "content": [{"type": "text", "text": "said"}]}, "said"),
}  # fmt: skip


@pytest.mark.parametrize("name", BLOCKS)
def test_newer_result_blocks_keep_text(serving: Running, name: str) -> None:
    block, text = BLOCKS[name]
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [block]}]}
    messages = [*ASK, CALLED, result]
    assert (
        json.loads(text_of(serving, "/v1/messages", "echo", messages=messages))["messages"][-1]["content"]
        == text
    )


@pytest.mark.parametrize("name", RUN_BY_OTHERS)
@pytest.mark.parametrize("stream", [False, True])
def test_server_tool_results_keep_text(serving: Running, stream: bool, name: str) -> None:
    block, text = RUN_BY_OTHERS[name]
    use = {"type": "server_tool_use", "id": "s1", "name": name, "input": {"query": "x"}}
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    turn = {"role": "assistant", "content": [thought, use, block, {"type": "text", "text": "I found it."}]}
    messages = [*ASK, turn, {"role": "user", "content": "and then?"}]
    seen = json.loads(text_of(serving, "/v1/messages", "echo", stream, messages=messages))["messages"]
    assert [each["role"] for each in seen] == ["user", "assistant", "user"]
    assert seen[1]["content"] == f"{text}I found it."

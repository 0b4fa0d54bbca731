"""Requests as agents and libraries send them, with every field that they send, against a function that calls tools."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.serving import HERE, Running

APP = HERE / "clients" / "agent_app.py"
COMPLETING = """

@app.model
def completing(prompt: str) -> Iterator[str]:
    yield from ("Find", " it")
"""
CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages?beta=true"
CACHED = {"cache_control": {"type": "ephemeral"}}


def schema(**properties: str) -> dict[str, Any]:
    fields = {name: {"type": kind, "description": "What it is"} for name, kind in properties.items()}
    return {"type": "object", "properties": fields, "required": [*fields], "additionalProperties": False}


def function(name: str, **properties: str) -> dict[str, Any]:
    described = {"name": name, "description": "What it does", "parameters": schema(**properties)}
    return {"type": "function", "function": described}


def called(name: str, **arguments: str) -> list[dict[str, Any]]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return [{"id": "call_1", "type": "function", "function": function}]


USAGE = {"stream": True, "stream_options": {"include_usage": True}}
SYSTEM = {"role": "system", "content": "You work on code."}
ASKED = {"role": "user", "content": "Find it."}
PARTS = {"role": "user", "content": [{"type": "text", "text": "Find it."}]}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "found-it"}

CLAUDE_CODE = {
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "A reminder."},
                {"type": "text", "text": "Find it.", **CACHED},
            ],
        },
        {"role": "system", "content": "There are other agents."},
    ],
    "system": [
        {"type": "text", "text": "A header."},
        {"type": "text", "text": "You work on code.", **CACHED},
    ],
    "tools": [
        {
            "name": name,
            "description": "What it does",
            "input_schema": {"$schema": "x", **schema(**properties)},
        }
        for name, properties in (("Agent", {"prompt": "string"}), ("Bash", {"command": "string"}))
    ],
    "metadata": {"user_id": "user_1"},
    "max_tokens": 32000,
    "thinking": {"type": "disabled"},
    "stream": True,
}
CLAUDE_RESULT = [
    {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "call_1", "name": "Bash", "input": {"command": "x"}}],
    },
    {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "call_1",
                "content": [{"type": "text", "text": "found-it"}],
            },
            {"type": "text", "text": "A reminder.", **CACHED},
        ],
    },
]

BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "Claude Code": (MESSAGES, CLAUDE_CODE),
    "Claude Code, after a call": (MESSAGES, {**CLAUDE_CODE, "messages": [ASKED, *CLAUDE_RESULT]}),
    "opencode": (
        CHAT,
        {
            "max_tokens": 32000,
            "messages": [SYSTEM, ASKED],
            "tools": [function("bash", command="string")],
            "tool_choice": "auto",
            **USAGE,
        },
    ),
    "opencode, a title": (CHAT, {"max_tokens": 32000, "messages": [SYSTEM, ASKED, ASKED], **USAGE}),
    "opencode, after a call": (
        CHAT,
        {
            "messages": [
                SYSTEM,
                ASKED,
                {"role": "assistant", "content": None, "tool_calls": called("bash", command="x")},
                RESULT,
            ],
            "tools": [function("bash", command="string")],
            **USAGE,
        },
    ),
    "Continue": (
        CHAT,
        {
            "messages": [SYSTEM, ASKED],
            "tools": [function("Read", filepath="string"), function("Bash", command="string")],
            **USAGE,
        },
    ),
    "Continue, in an editor": (
        CHAT,
        {
            "messages": [SYSTEM, PARTS],
            "max_tokens": 4096,
            "temperature": 0.5,
            "stop": ["</s>"],
            "stream": True,
        },
    ),
    "Continue, a line to complete": (
        "/v1/completions",
        {
            "model": "completing",
            "prompt": "a",
            "max_tokens": 2048,
            "temperature": 0.01,
            "stop": ["\n\n", "/src/"],
            "stream": True,
        },
    ),
    "Cline": (
        CHAT,
        {
            "messages": [SYSTEM, PARTS],
            "tools": [function("run_commands", command="string")],
            "tool_choice": "auto",
            **USAGE,
        },
    ),
    "Cline, an older one": (CHAT, {"messages": [SYSTEM, PARTS, PARTS], "temperature": 0, **USAGE}),
    "LiteLLM": (
        CHAT,
        {
            "messages": [SYSTEM, ASKED],
            "tools": [function("bash", command="string")],
            "parallel_tool_calls": True,
            "user": "u",
            **USAGE,
        },
    ),
    "LiteLLM, to Ollama": (
        "/api/chat",
        {"messages": [SYSTEM, ASKED], "options": {"temperature": 0.1, "num_predict": 99}, "stream": True},
    ),
    "LiteLLM, to an older Ollama": (
        "/api/generate",
        {"prompt": "Find it.", "options": {}, "stream": True, "images": []},
    ),
    "aider": (
        CHAT,
        {
            "messages": [SYSTEM, ASKED, {"role": "assistant", "content": "Ok."}, ASKED],
            "temperature": 0,
            "stream": True,
        },
    ),
    "aider, a commit": (CHAT, {"messages": [SYSTEM, ASKED], "temperature": 0, "stream": False}),
    "llm": (CHAT, {"stream": True, "messages": [ASKED], "stream_options": {"include_usage": True}}),
    "llm, with tools": (CHAT, {"messages": [ASKED], "tools": [function("bash", command="string")], **USAGE}),
    "llm, with a schema": (
        CHAT,
        {
            "messages": [ASKED],
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "output", "schema": schema(name="string")},
            },
            **USAGE,
        },
    ),
}


@pytest.fixture(scope="module")
def served(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder: Path = tmp_path_factory.mktemp("requests")
    (folder / "app.py").write_text(APP.read_text() + COMPLETING)
    running = Running(folder / "models", target="app.py", INFERSTREAM_PARALLEL_WORKERS=str(workers))
    yield running
    assert running.stop() == 0, running.text()


@pytest.mark.parametrize("name", BODIES)
def test_recorded_agent_request_is_accepted(served: Running, name: str) -> None:
    path, body = BODIES[name]
    headers = (
        {"anthropic-version": "2023-06-01", "anthropic-beta": "claude-code-20250219"}
        if path == MESSAGES
        else {}
    )
    answer = httpx.post(served.url + path, json={"model": "agent", **body}, headers=headers, timeout=20)
    assert answer.status_code == 200, answer.text
    if body.get("tools") and "after" not in name:
        assert re.search(r'"name":"(bash|Bash|run_commands)"', answer.text)
        assert "found-it" in answer.text
        assert '"tool_use"' in answer.text or '"finish_reason":"tool_calls"' in answer.text
    elif "after" in name:
        assert "found-it" in answer.text
    elif "response_format" in body:
        chunks = [json.loads(data) for data in re.findall(r"^data: (\{.*)", answer.text, re.M)]
        pieces = [choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"]]
        assert json.loads("".join(pieces)) == {"name": "echo found-it"}
    else:
        assert re.search("Find|Ok", answer.text)
    if body.get("stream_options"):
        last = [json.loads(data) for data in re.findall(r"^data: (\{.*)", answer.text, re.M)][-1]
        assert last["choices"] == []
        assert last["usage"]["completion_tokens"] == 3

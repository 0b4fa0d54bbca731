"""Exceptions that would end a task, a generator or a process, raised by functions and steps, over APIs of JSON.

Each ends its call with an error that is logged once: never as a whole answer, by silence, or by the end of the server.
The table has every pair of exception, kind of model in its place, and API.
"""

from collections.abc import Callable, Iterator

import httpx
import pytest

from tests.pairs import pairwise
from tests.serving import Running, eventually, started_once

APP = """
import asyncio
import sys
from collections.abc import AsyncIterator, Iterator

from inferstream import App, Finished

app = App()
ENDS = {
    "exit": SystemExit(3),
    "interrupt": KeyboardInterrupt(),
    "cancelled": asyncio.CancelledError(),
    "generator-exit": GeneratorExit(),
    "stop": StopIteration(),
    "stop-async": StopAsyncIteration(),
    "base": BaseException("secret"),
    "group": BaseExceptionGroup("secret", [KeyboardInterrupt(), ValueError("secret")]),
}


def end(prompt):
    raise type(ENDS[prompt])(*ENDS[prompt].args)


@app.model
def alive(x: int) -> int: return x
@app.model
def call(prompt: str) -> str: return end(prompt)
@app.model
async def async_call(prompt: str) -> str: return end(prompt)
@app.model
def stream(prompt: str) -> Iterator[str]:
    yield "a"
    end(prompt)
@app.model
async def async_stream(prompt: str) -> AsyncIterator[str]:
    yield "a"
    end(prompt)
@app.model(batch=4, within_ms=5)
def batch(prompt: list[str]) -> list[str]: return [end(each) for each in prompt]
@app.model(batch=4, within_ms=5)
async def async_batch(prompt: list[str]) -> list[str]: return [end(each) for each in prompt]
@app.steps("step")
def step(states: list[str]) -> list[str | Finished]: return [end(each) for each in states]
@step.admit
def begin(prompt: str) -> str: return prompt
@app.steps("async_step")
async def async_step(states: list[str]) -> list[str | Finished]: return [end(each) for each in states]
@async_step.admit
async def async_begin(prompt: str) -> str: return prompt
@app.steps("admit")
def admit(states: list[str]) -> list[str | Finished]: return [Finished("b") for _ in states]
@admit.admit
def fail_to_begin(prompt: str) -> str: return end(prompt)
"""
ENDS = ("exit", "interrupt", "cancelled", "generator-exit", "stop", "stop-async", "base", "group")
CALLS = ("call", "async_call", "batch", "async_batch")
STREAMS = ("stream", "async_stream", "step", "async_step", "admit")
PLACES = ("server", "worker")
CHAT = [{"role": "user", "content": "{}"}]
APIS = {
    "generate_stream": ("/v2/models/{model}/generate_stream", {"prompt": "{}"}),
    "JSON-RPC": ("/rpc", {"jsonrpc": "2.0", "id": 1, "method": "{model}", "params": {"prompt": "{}"}}),
    "MCP": (
        "/mcp",
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "{model}", "arguments": {"prompt": "{}"}},
        },
    ),
    "chat": ("/v1/chat/completions", {"model": "{model}", "messages": CHAT, "stream": True}),
    "chat whole": ("/v1/chat/completions", {"model": "{model}", "messages": CHAT}),
    "Anthropic": ("/v1/messages", {"model": "{model}", "max_tokens": 9, "messages": CHAT, "stream": True}),
    "Ollama": ("/api/generate", {"model": "{model}", "prompt": "{}"}),
    "TGI": ("/generate_stream", {"model": "{model}", "inputs": "{}"}),
}
WHOLE = {"generate": ("/v2/models/{model}/generate", {"prompt": "{}"})} | {
    name: APIS[name] for name in ("JSON-RPC", "MCP")
}
ROWS = [
    row
    for models, apis in ((STREAMS, APIS), (CALLS, WHOLE))
    for row in pairwise([f"{model} in {place}" for model in models for place in PLACES], ENDS, list(apis))
]


@pytest.fixture(scope="module")
def server_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Running]]:
    """The server whose models run in a place."""

    def start(place: str) -> Running:
        folder = tmp_path_factory.mktemp("ends") / "code"
        folder.mkdir()
        (folder / "app.py").write_text(APP)
        workers = str(PLACES.index(place))
        return Running(folder, target="code/app.py", INFERSTREAM_PARALLEL_WORKERS=workers)

    with started_once(start) as servers:
        yield servers


def filled(part: object, model: str, prompt: str) -> object:
    if isinstance(part, dict):
        return {name: filled(each, model, prompt) for name, each in part.items()}
    if isinstance(part, list):
        return [filled(each, model, prompt) for each in part]
    if part == "{}":
        return [prompt] if model.endswith("batch") else prompt
    return model if part == "{model}" else part


@pytest.mark.parametrize(("kind", "end", "api"), ROWS)
def test_exit_in_model_code_ends_only_its_call(
    server_in: Callable[[str], Running], kind: str, end: str, api: str
) -> None:
    model, _, place = kind.partition(" in ")
    app = server_in(place)
    path, body = (APIS | WHOLE)[api]
    before = len(app.text())
    found = httpx.post(app.url + path.format(model=model), json=filled(body, model, end), timeout=15)
    assert found.status_code in (200, 500, 424), found.text  # 424 is TGI's
    assert '"error"' in found.text or '"isError":true' in found.text
    assert "secret" not in found.text
    eventually(lambda: f"model {model} failed" in app.text()[before:])
    assert app.text()[before:].count(f"model {model} failed") == 1
    alive = httpx.post(f"{app.url}/v2/models/alive/generate", json={"x": 1}, timeout=15)
    assert alive.json()["output"] == 1

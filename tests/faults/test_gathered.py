"""Streams that are gathered to one response: items take their bytes alone, and have one bound."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.serving import Running, eventually

LIMIT = 2**20

APP = """
from collections.abc import Iterator

from inferstream import App

app = App()


@app.model
def count(n: int) -> Iterator[int]:
    yield from range(n)


@app.model
def talk(prompt: str) -> Iterator[str]:
    for _ in range(int(prompt)):
        yield "some text "
"""


HOSTS = {"one front end": (1, 0), "two front ends": (2, 0), "workers": (1, 1)}
"""Front ends and workers."""


@pytest.fixture(params=HOSTS, scope="module")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    front_ends, workers = HOSTS[request.param]
    folder: Path = tmp_path_factory.mktemp("gathered") / "models"
    folder.mkdir()
    (folder / "app.py").write_text(APP)
    (folder / "settings.json").write_text(
        json.dumps({"max_body_bytes": LIMIT, "frontends": front_ends, "parallel_workers": workers})
    )
    running = Running(folder, target="models/app.py", within=60, INFERSTREAM_MAX_BODY_BYTES=str(LIMIT))
    yield running
    running.stop()


def count_of(n: int) -> dict[str, dict]:
    call = {"jsonrpc": "2.0", "id": 1, "method": "count", "params": {"n": n}}
    tool = {"name": "count", "arguments": {"n": n}}
    return {
        "/rpc": call,
        "/rpc ": [call, call],
        "/mcp": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": tool},
    }


def text_of(n: int) -> dict[str, dict]:
    messages = [{"role": "user", "content": str(n)}]
    return {
        "/v1/completions": {"model": "talk", "prompt": str(n)},
        "/v1/chat/completions": {"model": "talk", "messages": messages},
        "/v1/messages": {"model": "talk", "messages": messages, "max_tokens": 10**9},
        "/v1/responses": {"model": "talk", "input": str(n)},
        "/generate": {"model": "talk", "inputs": str(n), "parameters": {"max_new_tokens": 10**9}},
        "/api/generate": {"model": "talk", "prompt": str(n), "stream": False},
        "/api/chat": {"model": "talk", "messages": messages, "stream": False},
    }


def ask(server: Running, path: str, body: object) -> httpx.Response:
    return httpx.post(f"{server.url}{path.strip()}", json=body, timeout=60)


@pytest.mark.parametrize("path", count_of(0))
def test_gathered_items_take_only_their_bytes(server: Running, path: str) -> None:
    before = server.rss()
    peak, done = [before], threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            peak.append(server.rss())

    watching = threading.Thread(target=watch)
    watching.start()
    answer = ask(server, path, count_of(70_000)[path])
    done.set()
    watching.join()
    assert answer.status_code == 200
    assert "69999" in answer.text
    assert max(peak) < before + 60 * 2**20


@pytest.mark.parametrize("path", [*count_of(0), *text_of(0)])
def test_gathering_limit_is_named(server: Running, path: str) -> None:
    bodies = {**count_of(10**9), **text_of(10**9)}
    answer = ask(server, path, bodies[path])
    assert "max_body_bytes" in answer.text, answer.text[:300]
    assert answer.status_code in (200, 413)
    assert httpx.get(f"{server.url}/v2/health/ready").status_code == 200


@pytest.mark.parametrize("path", [*count_of(0), *text_of(0)])
def test_client_disconnect_ends_gathering(server: Running, path: str) -> None:
    bodies = {**count_of(10**9), **text_of(10**9)}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{server.url}{path.strip()}", json=bodies[path], timeout=httpx.Timeout(5, read=0.005))
    eventually(lambda: server.metric("rest_server_requests_in_progress") <= 1)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/generate_stream", {"inputs": "1000000000", "parameters": {"details": False}}),
        ("/v1/responses", {"model": "talk", "input": "1000000000", "stream": True}),
    ],
)
def test_repeated_final_text_counts_towards_limit(
    server: Running, path: str, body: dict[str, object]
) -> None:
    answer = ask(server, path, body)
    assert answer.status_code == 200
    events = answer.text.strip().split("\n\n")
    assert any("max_body_bytes" in each for each in events[-2:]), events[-2:]
    assert len(answer.content) < 4 * LIMIT

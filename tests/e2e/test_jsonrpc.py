"""JSON-RPC over the real server: values, deadlines, and clients that leave."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.serving import Running, eventually

APP = """
import asyncio, os
from collections.abc import AsyncIterator
import numpy as np
import numpy.typing as npt
from inferstream import App, TensorInput

app = App()

def note(*words):
    with open(os.environ["TEST_LOG"], "a") as log:
        print(*words, file=log, flush=True)

@app.model
def add(a: int, b: int = 1) -> int:
    return a + b

@app.model
def scale(x: TensorInput[np.float32, "n", "n"], by: float = 2.0) -> npt.NDArray[np.float32]:
    return x * np.float32(by)

@app.model
async def count(n: int, every: float = 0.0) -> AsyncIterator[str]:
    try:
        for i in range(n):
            yield f"item {i}"
            await asyncio.sleep(every)
    finally:
        note("closed", n)

@app.model
async def waiting() -> None:
    note("waiting")
    try:
        await asyncio.Event().wait()
    finally:
        note("left")
"""


@pytest.fixture(scope="module")
def app(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("jsonrpc")
    (folder / "app.py").write_text(APP)
    (folder / "settings.json").write_text(json.dumps({"parallel_workers": workers}))
    running = Running(folder / "app.py")
    yield running
    assert running.stop() == 0, running.text()


def call(method: str, params: Any, **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params, **more}


def post(app: Running, document: Any, path: str = "/rpc", **options: Any) -> Any:
    return httpx.post(f"{app.url}{path}", json=document, timeout=20, **options).json()


def test_values_in_and_out(app: Running) -> None:
    assert post(app, call("add", [1, 2], id=1)) == {"jsonrpc": "2.0", "result": 3, "id": 1}
    matrix = [[1.0, 0.1], [2.0, 3.0]]
    assert post(app, call("scale", {"x": matrix}, id=1))["result"] == [[2.0, 0.2], [4.0, 6.0]]
    written = post(app, call("predict.scale", {"x": matrix, "by": 1.0}, id=1), "/jsonrpc")["result"]
    assert (written["shape"], written["dtype"]) == ([2, 2], "float")
    assert post(app, call("scale", {"x": written}, id=1))["result"] == [[2.0, 0.2], [4.0, 6.0]]
    wrong = post(app, call("scale", {"x": [[1.0, 2.0]]}, id=1))["error"]
    assert wrong["code"] == -32602
    assert '"n"' in wrong["message"] or "shape" in wrong["message"]


def test_an_id_with_control_characters_is_refused(app: Running) -> None:
    for id in ("a\nb", "\x1b[2J"):
        assert post(app, call("add", [1, 2], id=id)) == {
            "jsonrpc": "2.0",
            "error": {"code": -32600, "message": '"id" must be printable characters, a number or null.'},
            "id": None,
        }


def test_disconnect_ends_streaming_model(app: Running) -> None:
    with httpx.Client(timeout=20) as client:
        body = {"params": {"n": 1_000_001, "every": 0.01}}
        with client.stream("POST", f"{app.url}/rpc/stream/count", json=body) as response:
            next(response.iter_lines())
    eventually(lambda: app.noted("closed 1000001"))


@pytest.mark.parametrize("batch", [False, True])
def test_disconnect_ends_calls(app: Running, batch: bool) -> None:
    before = app.log.read_text().count("left")
    waiting = call("waiting", [], id=1)
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{app.url}/rpc", json=[waiting] * 3 if batch else waiting, timeout=1)
    eventually(lambda: app.log.read_text().count("left") == before + (3 if batch else 1))


def test_deadline_applies_per_call(app: Running) -> None:
    batch = [call("waiting", [], id=1), call("add", [1], id=2), call("waiting", [], id=3)]
    answers = post(app, batch, headers={"x-request-timeout": "0.3"})
    assert [answer.get("result") for answer in answers] == [None, 2, None]
    assert answers[0]["error"]["data"] == {"code": "deadline_exceeded", "status": 504}
    assert answers[2]["error"] == answers[0]["error"]


def test_routes_are_counted_and_health_matches_tgi(app: Running) -> None:
    path = {"path": "/rpc", "status_code": "200"}
    before = app.metric("rest_server_requests_total", **path)
    post(app, call("add", [1], id=1))
    eventually(lambda: app.metric("rest_server_requests_total", **path) == before + 1)
    assert httpx.get(f"{app.url}/health").json() == {"status": "healthy"}

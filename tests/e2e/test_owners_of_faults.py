"""A fault of the client is a 4xx that names it and is not logged; a fault of the model is a 500 that is logged once."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.serving import Running

APP = """
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferstream import App

app = App()


@app.model
def add(x: int, when: datetime | None = None) -> int:
    return x


@app.model
def total(x: NDArray[np.int64]) -> int:
    return int(x.sum())


@app.model(batch=4)
def rows(x: list[int]) -> list[int]:
    return x[1:] if -1 in x else x


@app.model
def nothing(x: int) -> int:
    return None


@app.model
def another(x: int) -> int:
    return "text"


@app.model
def opaque(x: int) -> Any:
    return object()


@app.model
def mixed(x: int) -> NDArray[np.int64]:
    return np.array([1, "a", object()], dtype=object)


@app.model
def generated(x: int) -> int:
    return (i for i in range(2))


@app.model
async def coroutine(x: int) -> int:
    return nothing_yet()


async def nothing_yet() -> int:
    return 1


@app.model
def later(x: int) -> Iterator[int]:
    yield 1
    yield "text"


@app.model
def raising(x: int) -> Iterator[int]:
    yield 1
    raise ValueError("secret")


@app.model
def counted(x: int) -> Iterator[int]:
    print("RAN", flush=True)
    yield from range(x)
"""
FAILURES = ("failed on request", "Traceback")


@pytest.fixture(scope="module", params=["in the server", "in workers"])
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("served") / "code"
    folder.mkdir()
    (folder / "app.py").write_text(APP)
    server = Running(
        folder / "app.py", INFERSTREAM_PARALLEL_WORKERS="1" if request.param == "in workers" else "0"
    )
    yield server
    server.stop()


def x(**fields: Any) -> dict[str, Any]:
    return {"name": "x", "datatype": "INT64", "shape": [1], "data": [1]} | fields


WRONG_TENSORS: dict[str, tuple[list[dict[str, Any]], str]] = {
    "none": ([], "x"),
    "unknown": ([x(), x(name="zz")], "zz"),
    "twice": ([x(), x()], "x"),
    "another datatype": ([x(datatype="FP32", data=[1.5])], "x"),
    "texts": ([x(datatype="BYTES", data=["a"])], "x"),
    "an unknown datatype": ([x(datatype="INT65")], "x"),
    "too few values": ([x(shape=[7])], "x"),
    "a negative size": ([x(shape=[-1])], "x"),
    "a huge size": ([x(shape=[10**30])], "x"),
    "a string in place of a number": ([x(data=["a"])], "x"),
    "null in place of a number": ([x(data=[None])], "x"),
    "no data": ([{"name": "x", "datatype": "INT64", "shape": [1]}], "x"),
}


@pytest.mark.parametrize("model", ["add", "total", "rows"])
@pytest.mark.parametrize("door", ["infer", "generate", "jsonrpc"])
@pytest.mark.parametrize("wrong", WRONG_TENSORS)
def test_wrong_inputs_are_named_and_not_logged(running: Running, model: str, door: str, wrong: str) -> None:
    tensors, named = WRONG_TENSORS[wrong]
    before = len(running.text())
    if door == "jsonrpc":
        body = {"jsonrpc": "2.0", "id": 1, "method": "infer", "params": {"model": model, "inputs": tensors}}
        response = httpx.post(f"{running.url}/jsonrpc", json=body, timeout=20)
        assert response.status_code < 500
    else:
        response = running.infer(model, {"inputs": tensors}, action=door)
        assert response.status_code == 400, response.text
        assert named in response.json()["error"]
    assert not any(mark in running.text()[before:] for mark in FAILURES)


WRONG_REQUESTS: dict[str, tuple[str, Any, int, str]] = {
    "an unknown output": ("add/infer", {"inputs": [x()], "outputs": [{"name": "zz"}]}, 400, "zz"),
    "parameters that are none": ("add/infer", {"inputs": [x()], "parameters": 3}, 400, "parameters"),
    "a priority of another type": (
        "add/infer",
        {"inputs": [x()], "parameters": {"priority": "a"}},
        400,
        "priority",
    ),
    "a time limit of another type": (
        "add/infer",
        {"inputs": [x()], "parameters": {"timeout": "a"}},
        400,
        "timeout",
    ),
    "an unknown model": ("zz/infer", {"inputs": [x()]}, 404, "zz"),
    "an unknown version": ("add/versions/9/infer", {"inputs": [x()]}, 404, "9"),
    "a date that is none": ("add/generate", {"x": 1, "when": "soon"}, 400, "when"),
    "a null": ("add/generate", {"x": None}, 400, "x"),
    "an id that is a number": ("add/generate", {"x": 1, "id": 7}, 400, "id, which names the request"),
    "no object": ("add/infer", [1], 400, "object"),
}


@pytest.mark.parametrize("wrong", WRONG_REQUESTS)
def test_wrong_requests_are_named_and_not_logged(running: Running, wrong: str) -> None:
    path, body, status, named = WRONG_REQUESTS[wrong]
    before = len(running.text())
    response = httpx.post(f"{running.url}/v2/models/{path}", json=body, timeout=20)
    assert (response.status_code, named in response.json()["error"]) == (status, True), response.text
    assert not any(mark in running.text()[before:] for mark in FAILURES)


def fault_in(running: Running, model: str, action: str) -> str:
    """The error of a call that ends in one, in one response or behind the first item of a stream."""
    response = running.infer(model, {"inputs": [x()]}, action=action)
    if response.status_code == 200:
        assert '"data":[1]' in response.text
        return response.text
    assert response.status_code == 500, response.text
    return str(json.loads(response.text)["error"])


@pytest.mark.parametrize(
    ("model", "action", "named"),
    [
        ("nothing", "infer", "output"),
        ("another", "infer", "output"),
        ("opaque", "infer", "output"),
        ("mixed", "infer", "output"),
        ("generated", "infer", "output"),
        ("coroutine", "infer", "output"),
        ("nothing", "generate", "output"),
        ("mixed", "generate", "output"),
        ("later", "infer_stream", "output"),
        ("raising", "infer_stream", "the server's log says why"),
    ],
)
def test_a_wrong_result_is_named_and_logged_once(
    running: Running, model: str, action: str, named: str
) -> None:
    before = len(running.text())
    said = fault_in(running, model, action)
    assert named in said
    assert "secret" not in said
    assert running.text()[before:].count(f"model {model} failed on request") == 1


def test_a_batch_with_another_number_of_rows_is_logged_once(running: Running) -> None:
    before = len(running.text())
    response = running.infer("rows", {"inputs": [x(shape=[3], data=[-1, 2, 3])]})
    assert (response.status_code, "2 items for a batch of 3" in response.text) == (500, True)
    assert running.text()[before:].count("model rows failed on request") == 1


@pytest.mark.parametrize("action", ["infer", "generate"])
def test_a_function_that_streams_is_refused_before_it_runs(running: Running, action: str) -> None:
    before = len(running.text())
    body = {"inputs": [x(data=[3])]} if action == "infer" else {"x": 3}
    response = running.infer("counted", body, action=action)
    assert response.status_code == 501
    assert "generate_stream" in response.json()["error"]
    assert "RAN" not in running.text()[before:]

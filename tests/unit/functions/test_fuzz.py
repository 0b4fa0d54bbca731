"""Whatever a client sends to a function is answered: 200, or 400 with the argument, and never 500."""
# ruff: noqa: F821  # names of dimensions are no names of types

import asyncio
import json
from collections.abc import Iterator
from datetime import datetime
from enum import Enum
from typing import Annotated, Any, Literal

import httpx
import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from inferstream import App, Application, TensorInput
from tests.examples import examples

app = App()


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Person(BaseModel):
    name: str
    age: int = 0


@app.model
def everything(
    a: int = 1,
    b: float | None = None,
    c: str = "",
    d: bytes = b"",
    e: bool = False,
    f: datetime | None = None,
    g: list[int] | None = None,
    h: list[str] | None = None,
    i: Literal[1, 2] = 1,
    j: Color = Color.RED,
    k: Person | None = None,
    l: TensorInput[np.float32, "n"] | None = None,  # noqa: E741
    m: TensorInput[np.int8, "n", "n"] | None = None,
    n: Annotated[int, Field(gt=0)] = 1,
    o: dict[str, Any] | None = None,
    p: list[Person] | None = None,
) -> str:
    return repr((a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p))[:0]


NAMES = "abcdefghijklmnopq"
NUMBERS = st.integers(-(2**70), 2**70) | st.floats() | st.booleans()
LEAVES = (
    st.none()
    | NUMBERS
    | st.text(max_size=6)
    | st.sampled_from(["red", "aGk=", "2024-01-01", '{"name": "x"}'])
)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
TENSOR = st.fixed_dictionaries(
    {
        "name": st.sampled_from(NAMES),
        "datatype": st.sampled_from(
            ["BOOL", "INT8", "INT64", "UINT64", "FP16", "FP32", "FP64", "BYTES", "X"]
        ),
        "shape": st.lists(st.integers(-1, 3), max_size=3),
        "data": st.lists(LEAVES, max_size=4) | JSON,
    }
)


@pytest.fixture(scope="module")
def asked() -> Iterator[Any]:
    """Asks the app in this process, on one event loop for all examples."""
    with asyncio.Runner() as runner:
        application = Application(app)
        runner.run(application.start())
        transport = httpx.ASGITransport(application.asgi)

        async def post(path: str, body: bytes) -> httpx.Response:
            async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
                return await asyncio.wait_for(client.post(f"/v2/models/everything/{path}", content=body), 20)

        yield lambda path, body: runner.run(post(path, body))
        runner.run(application.stop())


def check(response: httpx.Response) -> None:
    assert response.status_code in (200, 400), response.text
    if response.status_code == 400:
        assert response.json()["error"]


def dumped(document: Any) -> bytes:
    try:
        return orjson.dumps(document)
    except TypeError:  # an integer of more than 64 bits
        text = json.dumps(document)
        for number in ("-Infinity", "Infinity", "NaN"):  # no JSON
            text = text.replace(number, "null")
        return text.encode()


@examples(150)
@given(document=st.dictionaries(st.sampled_from(NAMES), JSON, max_size=3) | JSON)
def test_flat_json(asked: Any, document: Any) -> None:
    response = asked("generate", dumped(document))
    check(response)
    if (
        response.status_code == 400
        and isinstance(document, dict)
        and document
        and set(document) <= set(NAMES)
    ):
        assert any(f'"{name}"' in response.json()["error"] for name in document), response.text
    check(asked("generate_stream", dumped(document)))


@examples(150)
@given(tensors=st.lists(TENSOR, max_size=3))
def test_v2_json(asked: Any, tensors: list[dict]) -> None:
    check(asked("infer", dumped({"inputs": tensors})))


@examples(50)
@given(body=st.binary(max_size=40) | st.text(max_size=40).map(str.encode))
def test_invalid_json_bytes(asked: Any, body: bytes) -> None:
    check(asked("generate", body))
    check(asked("infer", body))

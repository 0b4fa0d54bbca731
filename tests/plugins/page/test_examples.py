"""Examples that a model's inputs allow."""

import sys
from types import ModuleType

import pytest

from inferstream import App
from inferstream.plugins.page.examples import example_arguments, example_request
from tests.asgi import asking

APP = """
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Literal
import numpy as np
from pydantic import BaseModel, Field
from inferstream import App, TensorInput

app = App()

@dataclass
class Point:
    x: int
    label: str

class Tree(BaseModel):
    left: "Tree | None"
    leaves: list["Tree"]

@app.model
def f(
    text: str,
    point: Point,
    tree: Tree,
    low: Annotated[int, Field(gt=4, le=9, description="Between 5 and 9.")],
    x: TensorInput[np.float32, "batch", 2],
    texts: list[str],
    day: date,
    file: bytes,
    flag: bool = False,
    word: Literal["a", "b"] = "b",
    maybe: int | None = 5,
) -> str:
    return f"{flag} {word} {maybe}"
"""


@pytest.fixture(scope="module")
def app() -> App:
    module = ModuleType("documented_app")
    sys.modules["documented_app"] = module
    exec(APP, module.__dict__)
    made: App = module.app
    return made


async def test_model_accepts_example(app: App) -> None:
    inputs = app["f"].signature().inputs
    assert inputs is not None
    example = example_arguments(inputs)
    assert example["point"] == {"x": 0, "label": "text"}
    assert example["low"] == 5
    async with asking(app) as (client, _):
        answered = await client.post("/v2/models/f/generate", json=example)
    assert answered.json()["output"] == "False b 5"
    assert [*example] == ["text", "point", "tree", "low", "x", "texts", "day", "file"]
    tensors = example_request(inputs)["inputs"]
    assert [tensor["shape"] for tensor in tensors[:5]] == [[1], [1], [1], [1], [1, 2]]
    assert tensors[-2]["data"] == ["b"]

"""Examples that a model's inputs allow."""

import pytest

from inferstream import App
from inferstream.codecs.values.flat import FlatArguments
from inferstream.server.rest.dialects.documentation.examples import example_arguments, example_request
from inferstream.types import MetadataTensor

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
) -> str: ...
"""


@pytest.fixture(scope="module")
def inputs() -> tuple[MetadataTensor, ...]:
    import sys
    import types

    module = types.ModuleType("documented_app")
    sys.modules["documented_app"] = module
    exec(APP, module.__dict__)
    app: App = module.app
    found = app["f"].signature().inputs
    assert found is not None
    return found


def test_the_example_is_taken_by_the_model(inputs: tuple[MetadataTensor, ...]) -> None:
    example = example_arguments(inputs)
    assert example["point"] == {"x": 0, "label": "text"}
    assert example["low"] == 5
    read = FlatArguments(inputs, True).read(example)
    assert [tensor.name for tensor in read] == ["text", "point", "tree", "low", "x", "texts", "day", "file"]
    tensors = example_request(inputs)["inputs"]
    assert [tensor["shape"] for tensor in tensors[:5]] == [[1], [1], [1], [1], [1, 2]]
    assert tensors[-2]["data"] == ["b"]

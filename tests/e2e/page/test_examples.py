"""The examples of the page and of the OpenAPI document are calls that the model takes."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.e2e.page.conftest import address, run
from tests.serving import Running

APP = '''
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from inferstream import App, TensorInput

app = App()


@dataclass
class Point:
    x: int
    label: str


@app.model
def docstring(a: int, words: list[str] | None = None) -> int:
    """Takes numbers above 40 only.

    >>> docstring(
    ...     41, words=["x", 'y']
    ... )
    """
    assert a > 40
    return a


@app.model
def defaults(a: int = 3, b: str = "x") -> int:
    assert (a, b) == (3, "x")
    return a


@app.model
def bounds(low: Annotated[float, Field(gt=5)], high: Annotated[int, Field(lt=-3)]) -> float:
    return low


@app.model
def days(day: date, days: list[date], times: list[datetime]) -> int:
    return len(days)


@app.model
def point(point: Point, maybe: Point | None = None) -> int:
    return point.x


@app.model
def word(word: Literal["a", "b"]) -> str:
    return word


@app.model
def array(x: TensorInput[np.float32, "batch", 2], flags: NDArray[np.bool_]) -> int:
    return x.size


@app.model
def counted(n: int) -> Iterator[int]:
    yield from range(n)
'''
COLUMNS = """
from inferstream import Model, ModelResponse


class Columns(Model):
    def predict(self, request):
        sizes = {tuple(tensor.shape) for tensor in request.inputs}
        assert sizes <= {(1,), (3,)} and len(sizes) == 1, sizes
        return {"n": [len(request.inputs)]}


class Writer(Model):
    def predict(self, request):
        assert [tensor.name for tensor in request.inputs] == ["prompt"], request.inputs
        return {"n": [1]}
"""
FUNCTIONS = ("docstring", "defaults", "bounds", "days", "point", "word", "array", "counted")


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("examples")
    (folder / "app.py").write_text(APP)
    running = Running(folder / "app.py")
    yield running
    assert running.stop() == 0, running.text()


@pytest.mark.parametrize("model", FUNCTIONS)
def test_function_form_is_prefilled(functions: Running, visit: Callable[..., Any], model: str) -> None:
    page = visit(address(functions, model))
    run(page)
    note = page.locator(".card.result .note")
    assert note.get_attribute("data-state") == "done", page.locator(".card.result").inner_text()


@pytest.mark.parametrize("model", FUNCTIONS)
@pytest.mark.parametrize("action", ["infer", "generate", "infer_stream", "generate_stream"])
def test_openapi_example_is_accepted(functions: Running, model: str, action: str) -> None:
    if (model == "counted") != action.endswith("stream"):
        return
    document = httpx.get(f"{functions.url}/v2/models/{model}/docs/dataplane.json").json()
    body = document["paths"][f"/v2/models/{model}/{action}"]["post"]["requestBody"]
    example = body["content"]["application/json"]["example"]
    response = functions.infer(model, example, action=action)
    assert (response.status_code, '"error"' in response.text) == (200, False), (example, response.text)

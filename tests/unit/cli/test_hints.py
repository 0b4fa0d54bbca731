"""The commands of the banner are calls that their models take."""

import shlex
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

import httpx
import numpy as np
import pytest
from annotated_types import Ge, Gt, Lt, MaxLen, MultipleOf

from inferstream import App, InferenceRequest, InferenceResponse, MLModel, ModelSettings, TensorInput
from inferstream.cli.hints import MAX_NUMBERS, hints
from inferstream.testing import run

URL = "http://127.0.0.1:8080"

app = App()


@app.model
def add(a: int, word: str, b: int = 1) -> str:
    return word * (a + b)


@app.model
async def count(n: int) -> AsyncIterator[int]:
    for each in range(n):
        yield each


async def pasted(served: Any) -> list[tuple[str, str]]:
    """The path of each command and its body, after the model has answered it."""
    calls = []
    async with run(served) as client:
        transport = httpx.ASGITransport(client.application.asgi)
        async with httpx.AsyncClient(transport=transport) as http:
            for line in hints(client.application._backend.registry, URL):
                *_, url, option, body = shlex.split(line)
                answer = await http.post(url, content=body)
                assert (option, answer.status_code) == ("-d", 200), answer.text
                calls.append((url.removeprefix(URL), body))
    return calls


async def test_unary_and_streaming_models_have_one_command_each() -> None:
    assert await pasted(app) == [
        ("/v2/models/add/generate", '{"a": 1, "word": "What is the capital?"}'),
        ("/v2/models/count/generate_stream", '{"n": 1}'),
    ]


class Texts(MLModel):
    async def predict_stream(self, payloads: AsyncIterator[InferenceRequest]) -> AsyncIterator[str]:
        async for _ in payloads:
            yield "word"


async def test_text_model_is_listed_first_and_has_a_chat_command() -> None:
    text = {"datatype": "BYTES", "shape": [1]}
    texts = ModelSettings(
        name="with 'quotes'",
        implementation=Texts,
        inputs=[{"name": "prompt", **text}],
        outputs=[{"name": "text", **text}],
    )
    calls = await pasted([app, texts])
    assert [path for path, _ in calls] == [
        "/v2/models/add/generate",
        "/v2/models/with%20%27quotes%27/generate_stream",
        "/v1/chat/completions",
    ]
    assert '"model": "with \'quotes\'"' in calls[-1][1]


class Tensors(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        return InferenceResponse(model_name=self.name, outputs=[])


@pytest.mark.parametrize(("size", "shown"), [(MAX_NUMBERS, True), (MAX_NUMBERS + 1, False)])
async def test_only_small_tensors_have_a_command(size: int, shown: bool) -> None:
    settings = ModelSettings(
        name="m",
        implementation=Tensors,
        inputs=[{"name": "x", "datatype": "FP32", "shape": [-1, size]}],
    )
    calls = await pasted(settings)
    assert [path for path, _ in calls] == ["/v2/models/m/infer"] * shown
    assert all(f'"shape": [1, {size}]' in body for _, body in calls)


async def test_model_with_unsupported_values_has_no_command() -> None:
    bounded = App()

    @bounded.model
    def far(a: Literal[5, 6]) -> int:
        return a

    class Undeclared(MLModel):
        async def predict(self, payload: InferenceRequest) -> InferenceResponse: ...

    assert await pasted([bounded, Undeclared]) == []


async def test_command_respects_value_bounds() -> None:
    bounded = App()

    @bounded.model
    def far(a: Annotated[int, Ge(5), Lt(9)], b: Annotated[float, Gt(0.5), MultipleOf(0.5)]) -> float:
        return a * b

    assert await pasted(bounded) == [("/v2/models/far/generate", '{"a": 5, "b": 1.0}')]


async def test_contradictory_bounds_give_no_command() -> None:
    odd = {"schema": '{"minimum": "x", "multipleOf": 0}'}
    settings = ModelSettings(
        name="m",
        implementation=Tensors,
        inputs=[{"name": "x", "datatype": "INT32", "shape": [1], "parameters": odd}],
    )
    assert await pasted(settings) == []


async def test_no_command_if_the_example_prompt_is_refused() -> None:
    bounded = App()

    @bounded.model
    def short(a: Annotated[str, MaxLen(5)]) -> str:
        return a

    assert await pasted(bounded) == []


async def test_function_with_a_matrix_gets_a_matrix() -> None:
    matrices = App()

    @matrices.model
    def total(x: TensorInput[np.float32, -1, 2]) -> float:
        return float(x.sum())

    assert await pasted(matrices) == [
        (
            "/v2/models/total/infer",
            '{"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1.0, 1.0]}]}',
        )
    ]

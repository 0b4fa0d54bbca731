"""Vectors of texts: shortened where the client wants it, and made of one request or of many."""

from typing import Any

import numpy as np
import pytest

from inferstream import InferenceRequest, InferenceResponse, MLModel, ModelSettings, NumpyCodec, StringCodec
from tests.asgi import asking


class Vectors(MLModel):
    """A vector of three numbers for each text, and the number of its requests."""

    async def load(self) -> bool:
        self.requests = 0
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        self.requests += 1
        texts = StringCodec.decode_input(payload.inputs[0])
        rows = np.array([[3.0, 4.0, len(text)] for text in texts], np.float32)
        return InferenceResponse(
            model_name="m",
            outputs=[NumpyCodec.encode_output("y", rows)],
            parameters={"prompt_tokens": sum(map(len, texts))},
        )


class Short(Vectors):
    """Fewer vectors than texts."""

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        rows = np.zeros(3, np.float32)
        return InferenceResponse(model_name="m", outputs=[NumpyCodec.encode_output("y", rows)])


def model(kind: type[MLModel] = Vectors, shape: int = -1) -> MLModel:
    return kind(
        ModelSettings(
            name="m",
            implementation=kind,
            inputs=[{"name": "text", "datatype": "BYTES", "shape": [shape]}],
            outputs=[{"name": "y", "datatype": "FP32", "shape": [-1, 3]}],
        )
    )


async def embedded(served: MLModel, **fields: Any) -> Any:
    async with asking(served) as (client, _):
        return await client.post("/v1/embeddings", json={"model": "m", "input": ["a", "bcd"], **fields})


@pytest.mark.parametrize(("shape", "requests"), [(-1, 1), (1, 2)])
async def test_single_text_model_is_called_per_text(shape: int, requests: int) -> None:
    served = model(shape=shape)
    answered = (await embedded(served)).json()
    assert [each["embedding"] for each in answered["data"]] == [[3, 4, 1], [3, 4, 3]]
    assert answered["usage"]["prompt_tokens"] == 4
    assert served.requests == requests  # type: ignore[attr-defined]


async def test_shortened_vector_has_unit_length() -> None:
    answered = (await embedded(model(), dimensions=2)).json()
    assert np.allclose([each["embedding"] for each in answered["data"]], [[0.6, 0.8]] * 2)


@pytest.mark.parametrize(
    ("kind", "fields", "status", "said"),
    [
        (Vectors, {"dimensions": 4}, 400, "dimensions: must be at most 3, got 4"),
        (Vectors, {"dimensions": 0}, 400, "dimensions: must be at least 1"),
        (Vectors, {"input": []}, 400, "input: must be a string or a list of strings"),
        (Vectors, {"input": ["a"] * 2049}, 400, "at most 2048 are allowed"),
        (Short, {}, 500, "Model m answered no vector for each of 2 texts."),
    ],
)
async def test_invalid_field_is_refused_by_name(
    kind: type[MLModel], fields: dict[str, Any], status: int, said: str
) -> None:
    refused = await embedded(model(kind), **fields)
    assert refused.status_code == status
    assert said in refused.json()["error"]["message"]

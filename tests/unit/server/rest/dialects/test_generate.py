"""Flat JSON for classes that declare their inputs."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from inferstream import Application, MetadataTensor, MLModel, ModelSettings


class Prompted(MLModel):
    async def predict(self, payload):  # type: ignore[no-untyped-def]
        given = {tensor.name: tensor.data.flat()[0] for tensor in payload.inputs}
        return given["prompt"]


INPUTS = [
    MetadataTensor(name="prompt", datatype="BYTES", shape=[1]),
    MetadataTensor(name="temperature", datatype="FP32", shape=[1]),
    MetadataTensor(name="style", datatype="BYTES", shape=[1], parameters={"optional": True}),
]


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    settings = [
        ModelSettings(name=mode, implementation=Prompted, inputs=INPUTS, input_validation=mode)
        for mode in ("declared", "off")
    ]
    async with (
        Application(settings) as application,
        httpx.AsyncClient(
            transport=httpx.ASGITransport(application.asgi), base_url="http://127.0.0.1"
        ) as client,
    ):
        yield client


@pytest.mark.parametrize("action", ["generate", "generate_stream"])
@pytest.mark.parametrize("model", ["declared", "off"])
async def test_misspelt_input_is_reported_as_missing(
    client: httpx.AsyncClient, model: str, action: str
) -> None:
    said = 'input "prompt" is missing; it takes prompt, temperature, style (optional)'
    bodies: list[Any] = [
        {"promt": "hi"},
        {"promt": "hi", "style": "x"},
        {"prompt": None},
        [{"temperature": 1.0}],
    ]
    for body in bodies:
        refused = await client.post(f"/v2/models/{model}/{action}", json=body)
        assert (refused.status_code, refused.json()["error"]) == (400, said), body


async def test_inputs_filled_by_text_protocols_are_optional(client: httpx.AsyncClient) -> None:
    answered = await client.post("/v2/models/declared/generate", json={"prompt": "hi", "length": 3})
    assert answered.status_code == 200, answered.text

"""Tokens in and out: what a model tells of them, and the responses of a stream where it tells nothing."""

from collections.abc import AsyncIterator

import pytest

from inferstream import MLModel, Token, Usage
from inferstream.dataplane.call import Call, Operation
from inferstream.dataplane.execution.local import Local
from inferstream.dataplane.pipeline import build_pipeline, build_shared_objects
from inferstream.settings import ModelSettings, Settings
from inferstream.telemetry.metrics import Meters
from inferstream.telemetry.stages import TokenMeters
from inferstream.tokens import ToldUsage, read_usage
from inferstream.types import InferenceRequest, InferenceResponse, Parameters, RequestInput, ResponseOutput

TEXT = {"name": "text", "datatype": "BYTES", "shape": [1]}
DECLARED = {"inputs": [TEXT], "outputs": [TEXT]}


class Counts(MLModel):
    async def predict_stream(self, payloads: AsyncIterator[InferenceRequest]) -> AsyncIterator[Token]:
        async for _ in payloads:
            yield Token("a")
            yield Token("b", usage=Usage(7, 20), finish_reason="length")


class Silent(MLModel):
    async def predict_stream(self, payloads: AsyncIterator[InferenceRequest]) -> AsyncIterator[str]:
        async for _ in payloads:
            for word in "abc":
                yield word


class Whole(MLModel):
    async def predict(self, payload: InferenceRequest) -> Token:
        return Token("a text", usage=Usage(3, 4))


async def counted(implementation: type[MLModel], read: int = 100, **settings: object) -> tuple[Meters, str]:
    """The meters after one call whose client reads so many responses."""
    meters = Meters()
    model = ModelSettings(implementation=implementation, name="m", **settings)
    pipeline = build_pipeline(Local(implementation(model)), build_shared_objects(Settings(), meters))
    operation = Operation.INFER if implementation is Whole else Operation.STREAM
    request = InferenceRequest(
        id="i", inputs=[RequestInput(name="text", datatype="BYTES", shape=[1], data=["hi"])]
    )
    async with await pipeline.handler(Call(operation, "m", None, request, {})) as reply:
        async for _ in reply:
            read -= 1
            if not read:
                break
    return meters, meters.exposition().decode()


@pytest.mark.parametrize(
    ("implementation", "read", "settings", "expected"),
    [
        (Counts, 100, DECLARED, (7, 20)),
        (Counts, 100, {}, (7, 20)),
        (Counts, 1, DECLARED, (0, 1)),
        (Silent, 100, DECLARED, (0, 3)),
        (Silent, 2, DECLARED, (0, 2)),
        (Silent, 100, {}, (0, 0)),
        (Whole, 100, DECLARED, (3, 4)),
    ],
    ids=["told", "undeclared", "cut", "silent", "silent cut", "silent undeclared", "whole"],
)
async def test_tokens_are_model_usage_or_text_items(
    implementation: type[MLModel], read: int, settings: dict, expected: tuple[int, int]
) -> None:
    meters, page = await counted(implementation, read, **settings)
    for name, count in zip(("input", "output"), expected, strict=True):
        assert f'inferstream_{name}_tokens_total{{model="m",version=""}} {count}.0' in page
    if implementation is Counts and read > 1:
        found = meters.of("m", None).of(TokenMeters)
        assert (found.input.count, found.output.count) == (1, 1)


async def test_embedding_model_counts_input_tokens() -> None:
    class Vectors(MLModel):
        async def predict(self, payload: InferenceRequest) -> InferenceResponse:
            vector = ResponseOutput(name="v", datatype="FP32", shape=[1, 1], data=[0.5])
            return InferenceResponse(model_name="m", outputs=[vector], parameters=Parameters(prompt_tokens=6))

    vector = {"name": "v", "datatype": "FP32", "shape": [-1, 1]}
    meters = Meters()
    model = ModelSettings(implementation=Vectors, name="m", inputs=[TEXT], outputs=[vector])
    pipeline = build_pipeline(Local(Vectors(model)), build_shared_objects(Settings(), meters))
    sent = RequestInput(name="text", datatype="BYTES", shape=[1], data=["hi"])
    await pipeline.handler(Call(Operation.INFER, "m", None, InferenceRequest(id="i", inputs=[sent]), {}))
    tokens = meters.of("m", None).of(TokenMeters)
    assert (tokens.input.total, tokens.output.count) == (6, 0)


async def test_non_text_model_has_no_tokens() -> None:
    class Numbers(MLModel):
        async def predict(self, payload: InferenceRequest) -> InferenceResponse:
            return InferenceResponse(model_name="m", outputs=[])

    number = {"name": "x", "datatype": "FP32", "shape": [1]}
    meters = Meters()
    model = ModelSettings(implementation=Numbers, name="m", inputs=[number], outputs=[number])
    build_pipeline(Local(Numbers(model)), build_shared_objects(Settings(), meters))
    page = meters.exposition().decode()
    assert "# TYPE inferstream_output_tokens_total counter" in page
    assert "inferstream_output_tokens_total{" not in page


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"prompt_tokens": 1, "completion_tokens": 0, "finish_reason": "stop"}, ToldUsage(1, 0, "stop")),
        ({"prompt_tokens": "many", "completion_tokens": -1}, ToldUsage()),
        ({"prompt_tokens": 1.5}, ToldUsage()),
        ({}, ToldUsage()),
        (None, ToldUsage()),
    ],
)
def test_parameters_of_other_types_are_ignored(parameters: dict | None, expected: ToldUsage) -> None:
    response = InferenceResponse(model_name="m", outputs=[], parameters=parameters)
    assert read_usage(response.parameters) == expected
    assert read_usage(None) == ToldUsage()

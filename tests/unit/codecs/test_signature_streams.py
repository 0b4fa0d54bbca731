"""`decode_args` on streams, with annotations that are strings, as `from __future__ import annotations` leaves them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import numpy as np
import pandas as pd
import pytest

from inferstream import MLModel, ModelSettings
from inferstream.codecs import NumpyCodec, StringCodec, decode_args
from inferstream.errors import InputsNotFound
from inferstream.types import InferenceRequest, InferenceResponse

PROMPT = InferenceRequest(inputs=[StringCodec.encode_input("prompt", ["a", "b"])])


class Recorded(MLModel):
    ended = False


class Blocking(Recorded):
    @decode_args
    def predict_stream(self, prompt: list[str]) -> Iterator[list[str]]:
        try:
            for word in prompt:
                yield [word]
        finally:
            self.ended = True


class Returned(Recorded):
    """Hands over an iterator that somebody else makes."""

    @decode_args
    def predict_stream(self, prompt: list[str]) -> Iterator[list[str]]:
        return iter([[word] for word in prompt])


class AsyncReturned(Recorded):
    @decode_args
    async def predict_stream(self, prompt: list[str], n: np.ndarray | None) -> AsyncIterator[list[str]]:
        async def words() -> AsyncIterator[list[str]]:
            try:
                for word in prompt:
                    yield [word]
            finally:
                self.ended = True

        return words()


class Outputs(Recorded):
    @decode_args
    def predict(self, prompt: list[str] | None) -> tuple[list[bytes], pd.DataFrame | None, np.ndarray | None]:
        return [], None, None if prompt is None else np.ones(1)


def made(model: type[Recorded]) -> Recorded:
    return model(ModelSettings(implementation=model, name="m"))


def words(responses: list[InferenceResponse]) -> list[str | None]:
    return [StringCodec.decode_output(response.outputs[0])[0] for response in responses]


@pytest.mark.parametrize("model", [Blocking, Returned])
def test_blocking_streams_encode_each_item(model: type[Recorded]) -> None:
    assert words(list(made(model).predict_stream(iter([PROMPT])))) == ["a", "b"]
    assert list(made(model).predict_stream(iter([]))) == []


def test_closing_a_blocking_stream_closes_its_generator() -> None:
    model = made(Blocking)
    stream = model.predict_stream(iter([PROMPT]))
    assert words([next(stream)]) == ["a"]
    stream.close()
    assert model.ended


def test_returned_async_iterator_is_streamed_and_closed() -> None:
    model = made(AsyncReturned)

    async def payloads(*requests: InferenceRequest) -> AsyncIterator[InferenceRequest]:
        for request in requests:
            yield request

    async def first_of_two() -> list[InferenceResponse]:
        assert [item async for item in model.predict_stream(payloads())] == []
        stream = model.predict_stream(payloads(PROMPT))
        first = await anext(stream)
        await stream.aclose()
        return [first]

    assert words(asyncio.run(first_of_two())) == ["a"]
    assert model.ended


def test_stream_names_the_missing_input() -> None:
    with pytest.raises(InputsNotFound, match=r"prompt \(list\[str\]\)"):
        next(made(Blocking).predict_stream(iter([InferenceRequest(inputs=[])])))


def test_empty_lists_are_outputs_and_missing_values_are_none() -> None:
    model = made(Outputs)
    full = model.predict(PROMPT)
    assert [(output.name, output.shape) for output in full.outputs] == [
        ("output-0", [0, 1]),
        ("output-2", [1, 1]),
    ]
    assert NumpyCodec.decode_output(full.outputs[1]).tolist() == [[1.0]]
    bare = model.predict(InferenceRequest(inputs=[]))
    assert [output.name for output in bare.outputs] == ["output-0"]

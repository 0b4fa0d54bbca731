"""`decode_args` reads signatures as people write them."""

import asyncio
from collections.abc import AsyncIterator
from typing import List, Optional, Tuple  # noqa: UP035  # as older model code spells them

import numpy as np
import pandas as pd
import pytest

from inferstream import MLModel, ModelSettings
from inferstream.codecs import NumpyCodec, PandasCodec, StringCodec, decode_args
from inferstream.errors import CodecNotFound, InputsNotFound, InvalidOutput
from inferstream.types import InferenceRequest


class Model(MLModel):
    @decode_args
    async def predict(
        self, a: np.ndarray, b: list[str], c: np.ndarray | None = None
    ) -> tuple[np.ndarray, list[str]]:
        return a * (2 if c is None else c), b


class Older(MLModel):
    @decode_args
    def predict(self, a: np.ndarray, b: Optional[List[str]]) -> Tuple[np.ndarray, List[str]]:  # noqa: UP006, UP045
        return a, b or ["none"]


class Frames(MLModel):
    @decode_args
    async def predict(self, rows: pd.DataFrame, scale: np.ndarray) -> pd.DataFrame:
        return rows * scale.item()


class Streams(MLModel):
    ended = False

    @decode_args
    async def predict_stream(self, b: list[str]) -> AsyncIterator[list[str]]:
        try:
            for word in b:
                yield [word]
        finally:
            self.ended = True


def made(model: type[MLModel]) -> MLModel:
    return model(ModelSettings(implementation=model, name="m"))


A = NumpyCodec.encode_input("a", np.eye(2))
B = StringCodec.encode_input("b", ["x"])


def request(*inputs) -> InferenceRequest:
    return InferenceRequest(inputs=list(inputs))


def test_arguments_are_matched_by_name_and_results_numbered() -> None:
    response = asyncio.run(made(Model).predict(request(B, A)))
    assert [output.name for output in response.outputs] == ["output-0", "output-1"]
    assert NumpyCodec.decode_output(response.outputs[0]).tolist() == [[2, 0], [0, 2]]
    assert StringCodec.decode_output(response.outputs[1]) == ["x"]
    assert response.model_name == "m"


def test_optional_arguments_and_older_spellings() -> None:
    assert StringCodec.decode_output(made(Older).predict(request(A)).outputs[1]) == ["none"]


def test_a_missing_argument_is_named() -> None:
    with pytest.raises(InputsNotFound, match="b"):
        asyncio.run(made(Model).predict(request(A)))


def test_an_input_nobody_asked_for_is_named() -> None:
    with pytest.raises(InputsNotFound, match='"z" is not one'):
        asyncio.run(made(Model).predict(request(A, B, StringCodec.encode_input("z", ["x"]))))


def test_frames_take_the_inputs_that_are_left_and_become_outputs() -> None:
    frame = pd.DataFrame({"u": [1.0, 2.0], "v": [3.0, 4.0]})
    asked = request(
        NumpyCodec.encode_input("scale", np.array([2.0])), *PandasCodec.encode_request(frame).inputs
    )
    outputs = asyncio.run(made(Frames).predict(asked)).outputs
    assert {output.name: output.data.root for output in outputs} == {"u": [2.0, 4.0], "v": [6.0, 8.0]}


def test_streams_encode_each_item_and_end_when_closed() -> None:
    model = made(Streams)

    async def ask() -> list[str]:
        async def payloads():
            yield request(StringCodec.encode_input("b", ["one", "two", "three"]))

        stream = model.predict_stream(payloads())
        first = StringCodec.decode_output((await anext(stream)).outputs[0])
        await stream.aclose()
        return first

    assert asyncio.run(ask()) == ["one"]
    assert model.ended


def test_results_that_do_not_fit_the_signature_are_refused() -> None:
    class Wrong(MLModel):
        @decode_args
        def predict(self, a: np.ndarray) -> np.ndarray:
            return "text"

    with pytest.raises(InvalidOutput, match=r"Model m returned .* type str"):
        made(Wrong).predict(request(A))


def test_hints_without_a_codec_fail_when_the_class_is_made() -> None:
    with pytest.raises(CodecNotFound, match="'a'"):

        class Wrong(MLModel):
            @decode_args
            def predict(self, a: set) -> np.ndarray: ...


def test_a_pair_of_types_is_a_tuple_of_them() -> None:
    class Pair(MLModel):
        @decode_args
        def predict(self, a: np.ndarray) -> (np.ndarray, list[str]):
            return a, ["x"]

    outputs = made(Pair).predict(request(A)).outputs
    assert [(output.name, output.datatype) for output in outputs] == [
        ("output-0", "FP64"),
        ("output-1", "BYTES"),
    ]


@pytest.mark.parametrize("hint", [None, np.ndarray, Optional[np.ndarray], Tuple[np.ndarray, np.ndarray]])  # noqa: UP006, UP045
def test_nothing_returned_is_no_outputs(hint) -> None:
    def predict(self, a: np.ndarray): ...

    predict.__annotations__["return"] = hint
    model = made(type("Silent", (MLModel,), {"predict": decode_args(predict)}))
    assert model.predict(request(A)).outputs == []


def test_a_request_fills_neither_variadic_parameters_nor_defaults_without_a_hint() -> None:
    class Loose(MLModel):
        @decode_args
        def predict(self, a: np.ndarray, *args, scale=3, **kwargs) -> np.ndarray:
            assert (args, kwargs) == ((), {})
            return a * scale

    model = made(Loose)
    assert NumpyCodec.decode_output(model.predict(request(A)).outputs[0]).tolist() == [[3, 0], [0, 3]]
    with pytest.raises(InputsNotFound, match='"scale" is not one'):
        model.predict(request(A, NumpyCodec.encode_input("scale", np.ones(1))))

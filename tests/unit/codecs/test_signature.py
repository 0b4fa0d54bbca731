"""`decode_args` reads signatures as people write them."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Annotated, List, Literal, Optional, Tuple  # noqa: UP035  # as older model code spells them

import numpy as np
import pandas as pd
import pytest
from pydantic import Field

from inferstream import MLModel, ModelSettings
from inferstream.codecs import NumpyCodec, PandasCodec, StringCodec, decode_args
from inferstream.codecs.values.hints import value_for
from inferstream.errors import CodecError, CodecNotFound, InputsNotFound, InvalidOutput
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


def test_arguments_match_by_name_and_results_are_numbered() -> None:
    response = asyncio.run(made(Model).predict(request(B, A)))
    assert [output.name for output in response.outputs] == ["output-0", "output-1"]
    assert NumpyCodec.decode_output(response.outputs[0]).tolist() == [[2, 0], [0, 2]]
    assert StringCodec.decode_output(response.outputs[1]) == ["x"]
    assert response.model_name == "m"


def test_optional_arguments_and_older_annotations() -> None:
    assert StringCodec.decode_output(made(Older).predict(request(A)).outputs[1]) == ["none"]


def test_missing_argument_is_named() -> None:
    with pytest.raises(InputsNotFound, match="b"):
        asyncio.run(made(Model).predict(request(A)))


def test_unexpected_input_is_named() -> None:
    with pytest.raises(InputsNotFound, match='"z" is not one'):
        asyncio.run(made(Model).predict(request(A, B, StringCodec.encode_input("z", ["x"]))))


def test_frame_takes_remaining_inputs_and_becomes_outputs() -> None:
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


def test_invalid_results_are_refused() -> None:
    class Wrong(MLModel):
        @decode_args
        def predict(self, a: np.ndarray) -> np.ndarray:
            return "text"

    with pytest.raises(InvalidOutput, match=r"Model m returned .* type str"):
        made(Wrong).predict(request(A))


def test_hint_without_codec_fails_at_class_creation() -> None:
    with pytest.raises(CodecNotFound, match="'a'"):

        class Wrong(MLModel):
            @decode_args
            def predict(self, a: complex) -> np.ndarray: ...


class Adds(MLModel):
    @decode_args
    def predict(
        self,
        a: int,
        b: Annotated[float, Field(ge=0)] = 1.0,
        names: Annotated[list[str], "said"] | None = None,
    ) -> float:
        return a + b + len(names or [])

    @decode_args
    async def predict_stream(self, a: int, word: Literal["x", "y"] = "x") -> AsyncIterator[tuple[str, int]]:
        for index in range(a):
            yield word, index


def whole(**values) -> InferenceRequest:
    return request(*(value_for(type(value)).encode_input(name, value) for name, value in values.items()))


def test_single_values_as_arguments_and_results() -> None:
    model = made(Adds)
    [output] = model.predict(whole(a=2)).outputs
    assert (output.name, output.datatype, output.shape, output.data.root) == ("output-0", "FP64", [1], [3.0])
    assert model.predict(whole(a=2, b=0.5)).outputs[0].data.root == [2.5]
    assert model.predict(request(whole(a=2).inputs[0], StringCodec.encode_input("names", ["n"]))).outputs[
        0
    ].data.root == [4.0]
    with pytest.raises(CodecError, match='input "a": takes INT64, got BYTES'):
        model.predict(whole(a="2"))
    with pytest.raises(CodecError, match=r'input "b": .*greater than or equal to 0'):
        model.predict(whole(a=1, b=-1.0))
    with pytest.raises(InputsNotFound, match=r"a \(int\)"):
        model.predict(whole(b=1.0))


def test_streams_accept_and_yield_single_values() -> None:
    async def found() -> list:
        async def payloads():
            yield whole(a=2, word="y")

        return [
            [output.data.root for output in response.outputs]
            async for response in made(Adds).predict_stream(payloads())
        ]

    assert asyncio.run(found()) == [[["y"], [0]], [["y"], [1]]]


def test_single_values_are_declared_as_for_functions() -> None:
    class Declares(MLModel):
        @decode_args
        def predict(self, a: int, b: float = 1.0, when: datetime | None = None) -> bool:
            return True

    model = made(Declares)
    assert [(t.name, t.datatype, t.shape) for t in model.inputs] == [
        ("a", "INT64", [1]),
        ("b", "FP64", [1]),
        ("when", "BYTES", [1]),
    ]
    assert model.inputs[1].parameters.get("default") == "1.0"
    assert model.inputs[2].parameters.get("optional")
    assert [(t.name, t.datatype, t.shape) for t in model.outputs] == [("output-0", "BOOL", [1])]


def test_tuple_return_type_is_two_outputs() -> None:
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
def test_none_return_is_no_outputs(hint) -> None:
    def predict(self, a: np.ndarray): ...

    predict.__annotations__["return"] = hint
    model = made(type("Silent", (MLModel,), {"predict": decode_args(predict)}))
    assert model.predict(request(A)).outputs == []


def test_request_does_not_fill_variadic_or_untyped_default_parameters() -> None:
    class Loose(MLModel):
        @decode_args
        def predict(self, a: np.ndarray, *args, scale=3, **kwargs) -> np.ndarray:
            assert (args, kwargs) == ((), {})
            return a * scale

    model = made(Loose)
    assert NumpyCodec.decode_output(model.predict(request(A)).outputs[0]).tolist() == [[3, 0], [0, 3]]
    with pytest.raises(InputsNotFound, match='"scale" is not one'):
        model.predict(request(A, NumpyCodec.encode_input("scale", np.ones(1))))

"""JSON values by name as inputs of a model, and its outputs as one JSON value."""

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import orjson
import pytest

from inferstream import App, InferenceRequest, InferenceResponse, MetadataTensor, TensorInput, testing
from inferstream.codecs import NumpyCodec, StringCodec
from inferstream.codecs.values.flat import FlatInterface, flat_interface
from inferstream.errors import InvalidOutput, InvalidRequest
from inferstream.signature import Signature

app = App()


@app.model
def add(a: int, b: int = 1, why: Literal["fun", "work"] | None = None) -> int:
    return a + b


@app.model
def scale(x: TensorInput[np.float32, None], by: float = 2.0) -> npt.NDArray[np.float32]:
    return x * np.float32(by)


@app.model
def pair(a: int) -> tuple[int, list[float]]:
    return a, [0.5, float("nan")]


@app.model
def nothing() -> None: ...


def interface(name: str) -> FlatInterface:
    found = flat_interface(app[name].signature())
    assert found is not None
    return found


def data(name: str, document: Any) -> dict[str, Any]:
    return {tensor.name: tensor.data.flat() for tensor in interface(name).arguments.read(document)}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"a": 1}, {"a": [1]}),
        ({"b": 3, "a": 1}, {"a": [1], "b": [3]}),
        ({"a": 1, "b": None, "why": None}, {"a": [1]}),
        ([1, 2], {"a": [1], "b": [2]}),
        ([1], {"a": [1]}),
        ([1, None, "fun"], {"a": [1], "why": ["fun"]}),
    ],
)
def test_arguments_by_name_and_position(document: Any, expected: dict[str, Any]) -> None:
    assert data("add", document) == expected


@pytest.mark.parametrize(
    ("document", "fault"),
    [
        ({}, 'argument "a" is missing; it takes a, b (optional), why (optional)'),
        ([], 'argument "a" is missing'),
        ({"a": 1, "c": 2}, '"c" is no argument of the model'),
        ([1, 2, None, 4], "4 arguments are too many; it takes a, b"),
        ({"a": "1"}, 'argument "a" takes an integer'),
        ({"a": None}, 'argument "a"'),
        ({"a": [1]}, 'argument "a" takes an integer'),
        ({"a": 1, "why": "play"}, "argument \"why\" takes one of 'fun', 'work', got 'play'"),
    ],
)
def test_invalid_argument_is_named(document: Any, fault: str) -> None:
    with pytest.raises(InvalidRequest) as wrong:
        interface("add").arguments.read(document)
    assert wrong.value.message.startswith(fault)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (b"[" * 1000 + b"]" * 1000, "[[[[[...]]]]]"),
        (b"[" + b"1.5," * 100_000 + b"1]", "[1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1..."),
        (b'"' + b"a" * 100_000 + b'"', "'" + "a" * 36 + "..."),
        (b'{"a": [1, null], "b": {}}', "{'a': [1, None], 'b': {}}"),
        (b"[]", "[]"),
    ],
)
def test_large_or_deep_invalid_value_is_shortened(value: bytes, shown: str) -> None:
    with pytest.raises(InvalidRequest) as wrong:
        interface("add").arguments.read({"a": orjson.loads(value)})
    assert wrong.value.message == f'argument "a" takes an integer, got {shown}'


async def test_results_are_written() -> None:
    def result(name: str, response: InferenceResponse) -> Any:
        written = orjson.dumps(response.accept(interface(name).results), option=orjson.OPT_SERIALIZE_NUMPY)
        return orjson.loads(written)

    async with testing.run(app) as client:
        assert result("add", await client.infer("add", a=1)) == 2
        scaled = await client.infer("scale", x=np.array([0.1, 2], np.float32))
        assert isinstance(scaled.accept(interface("scale").results), np.ndarray)
        assert result("scale", scaled) == [0.2, 4.0]
        assert result("pair", await client.infer("pair", a=1)) == {"output_0": 1, "output_1": [0.5, None]}
        assert result("nothing", await client.infer("nothing", InferenceRequest(inputs=[]))) is None


def test_class_model_accepts_lists_and_single_values() -> None:
    texts = MetadataTensor(name="x", datatype="BYTES", shape=[-1])
    found = flat_interface(Signature((texts,), None))
    assert found is not None
    for document in ({"x": "a"}, {"x": ["a"]}, ["a"]):
        (tensor,) = found.arguments.read(document)
        assert (tensor.shape, tensor.data.flat()) == ([1], ["a"])


def test_undeclared_outputs_are_written_unchanged() -> None:
    found = flat_interface(Signature((), ()))
    assert found is not None
    outputs = [
        NumpyCodec.encode_output("m", np.array([[1, 2]])),
        StringCodec.encode_output("t", ["a", "b"]),
        NumpyCodec.encode_output("s", np.array(5.0)),
    ]
    response = InferenceResponse(model_name="m", outputs=outputs)
    document = response.accept(found.results)
    assert (document["m"].tolist(), document["t"], document["s"]) == ([[1, 2]], ["a", "b"], 5.0)
    assert InferenceResponse(model_name="m", outputs=outputs[1:2]).accept(found.results) == ["a", "b"]
    bytes_of_no_text = StringCodec.encode_output("t", ["a"])
    bytes_of_no_text.data = [b"\xff\xfe"]
    bad = InferenceResponse(model_name="m", outputs=[bytes_of_no_text])
    with pytest.raises(InvalidOutput, match='Output "t"'):
        bad.accept(found.results)


def test_model_without_declaration_has_no_flat_interface() -> None:
    assert flat_interface(Signature()) is None

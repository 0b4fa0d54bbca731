"""Arguments become requests, and responses values, by metadata alone and by annotations."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime

import numpy as np
import pytest

from inferstream import App, InferenceResponse, RequestInput, ResponseOutput
from inferstream.clients.model_types import ModelTypes, PreparedCall, derive_types, read_types
from inferstream.errors import CallFailed
from inferstream.types import MetadataModelResponse
from tests.client_app import Color, Parts, Point, User, app


def metadata_of(app: App, name: str) -> MetadataModelResponse:
    """What a server says of a function, as a client reads it."""
    signature = app[name].signature()
    found = MetadataModelResponse(
        name=name, platform="", inputs=[*signature.inputs], outputs=[*signature.outputs]
    )
    return MetadataModelResponse.model_validate_json(found.model_dump_json())


@pytest.fixture(params=["metadata", "annotations"])
def types_of(request: pytest.FixtureRequest):
    if request.param == "annotations":
        return lambda name: derive_types(app[name])
    return lambda name: read_types(metadata_of(app, name))


def declared(name: str, datatype: str, shape: list[int], **parameters: object) -> dict:
    return {"name": name, "datatype": datatype, "shape": shape, "parameters": parameters}


def model(inputs: list[dict] | None = None, outputs: list[dict] | None = None) -> ModelTypes:
    fields = {"name": "m", "platform": "", "inputs": inputs, "outputs": outputs}
    return read_types(MetadataModelResponse.model_validate(fields))


async def prepared(types: ModelTypes, **arguments: object) -> PreparedCall:
    return await types.prepare(types.check(arguments), {})


async def sent(types: ModelTypes, **arguments: object) -> dict:
    """The data of each input."""
    call = await prepared(types, **arguments)
    return {tensor.name: tensor.data.flat() for tensor in call.request.inputs}


def answer(*outputs: tuple[str, str, list]) -> InferenceResponse:
    made = [
        ResponseOutput(name=name, datatype=kind, shape=[len(data)], data=data) for name, kind, data in outputs
    ]
    return InferenceResponse(model_name="m", outputs=made)


async def test_arguments_become_tensors(types_of) -> None:
    assert await sent(types_of("add"), a=1) == {"a": [1]}
    when = datetime(2024, 5, 6)  # noqa: DTZ001
    found = await sent(types_of("shift"), point=Point(1), color=Color.BLUE, mode="down", at=when)
    assert found == {
        "point": ['{"x":1,"y":0}'],
        "color": ["blue"],
        "mode": ["down"],
        "at": [when.isoformat()],
    }
    users = await sent(types_of("greet-all"), users=[User(name="a")], move={"by": 1})
    assert users == {"users": ['[{"name":"a","tags":[]}]'], "move": ['{"by":1}']}


async def test_none_is_omitted_if_it_is_the_default(types_of) -> None:
    assert "at" not in await sent(types_of("shift"), point={"x": 1}, at=None)
    with pytest.raises(TypeError, match='argument "b" takes an integer, got null'):
        await sent(types_of("add"), a=1, b=None)


@pytest.mark.parametrize(
    ("name", "arguments", "error", "says"),
    [
        ("add", {}, TypeError, 'model "add": argument "a" is missing; it takes a, b (optional)'),
        ("add", {"a": 1, "c": 2}, TypeError, '"c" is no argument; it takes a, b (optional)'),
        ("add", {"a": "x"}, TypeError, "argument \"a\" takes an integer, got 'x'"),
        ("add", {"a": 2**63}, ValueError, 'argument "a": 9223372036854775808 is out of range'),
        (
            "other",
            {"color": "green"},
            ValueError,
            "argument \"color\" takes one of 'red', 'blue', got 'green'",
        ),
        ("scale", {"x": np.ones((2, 2))}, ValueError, 'argument "x" takes shape [n, 3], got [2, 2]'),
        ("nothing", {"x": 1}, TypeError, "it takes no arguments"),
        ("total", {"n": 5}, TypeError, 'argument "n" takes a stream'),
        ("total", {"n": "text"}, TypeError, 'argument "n" takes a stream'),
    ],
)
async def test_invalid_argument_is_named(
    types_of, name: str, arguments: dict, error: type, says: str
) -> None:
    if name == "nothing" and types_of("nothing")._inputs is None:
        pytest.skip("metadata without inputs do not tell whether there are any")
    with pytest.raises(error) as caught:
        await prepared(types_of(name), **arguments)
    assert says in str(caught.value)


async def test_arrays_and_bytes_are_sent_raw(types_of) -> None:
    assert (await prepared(types_of("scale"), x=[[1, 2, 3]])).raw
    assert (await prepared(types_of("reverse"), data=b"ab")).raw
    assert not (await prepared(types_of("add"), a=1)).raw
    [x] = (await prepared(types_of("scale"), x=np.ones((1, 3)))).request.inputs
    assert (x.datatype, x.shape) == ("FP32", [1, 3])


async def test_stream_values_are_later_requests(types_of) -> None:
    async def values() -> AsyncIterator[int]:
        yield 1
        yield 2

    for given in (values(), [1, 2], iter((1, 2))):
        call = await prepared(types_of("total"), n=given, start=5)
        assert [tensor.name for tensor in call.request.inputs] == ["start"]
        assert [request.inputs[0].data.flat() async for request in call.more] == [[1], [2]]
    call = await prepared(types_of("total"), n=[1, "x"])
    with pytest.raises(TypeError, match='argument "n" takes an integer'):
        [request async for request in call.more]


async def test_class_model_gets_the_first_value_in_its_first_request() -> None:
    types = model([declared("x", "FP64", [-1]), declared("y", "BYTES", [1], optional=True)])
    call = await prepared(types, x=iter([[1.0], [2.0]]))
    assert [tensor.data.flat() for tensor in call.request.inputs] == [[1.0]]
    assert [request.inputs[0].data.flat() async for request in call.more] == [[2.0]]
    with pytest.raises(ValueError, match="without values"):
        await prepared(types, x=iter([]))


async def test_call_has_at_most_one_stream() -> None:
    types = model([declared("x", "FP64", [-1]), declared("y", "FP64", [-1])])
    with pytest.raises(TypeError, match='"y" is a second stream'):
        await prepared(types, x=iter([[1.0]]), y=iter([[1.0]]))


async def test_undeclared_inputs_are_encoded_by_value_type() -> None:
    types = model()
    call = await prepared(
        types, x=[[1.5]], text="a", n=3, own=RequestInput(name="o", datatype="BOOL", shape=[0], data=[])
    )
    assert [(tensor.name, tensor.datatype, tensor.shape) for tensor in call.request.inputs] == [
        ("x", "FP64", [1, 1]),
        ("text", "BYTES", [1, 1]),
        ("n", "INT64", [1]),
        ("o", "BOOL", [0]),
    ]
    with pytest.raises(TypeError, match='"x": no codec'):
        await prepared(types, x=object())


def test_values_have_annotated_types() -> None:
    def read(name: str, *outputs: tuple[str, str, list]) -> object:
        return derive_types(app[name]).decode_response(answer(*outputs))

    assert read("other", ("output", "BYTES", ["blue"])) is Color.BLUE
    assert read("shift", ("output", "BYTES", ['{"x":1,"y":2}'])) == Point(1, 2)
    assert read("parts", ("head", "BYTES", ["a"]), ("rest", "BYTES", ["b"])) == Parts("a", ["b"])
    assert read("nothing") is None


def test_values_have_metadata_types() -> None:
    def read(name: str, *outputs: tuple[str, str, list]) -> object:
        return read_types(metadata_of(app, name)).decode_response(answer(*outputs))

    assert read("other", ("output", "BYTES", ["blue"])) == "blue"
    assert read("shift", ("output", "BYTES", ['{"x":1,"y":2}'])) == {"x": 1, "y": 2}
    assert read("parts", ("head", "BYTES", ["a"]), ("rest", "BYTES", ["b"])) == {"head": "a", "rest": ["b"]}
    assert read("add", ("output", "INT64", [3])) == 3


def test_values_without_declaration() -> None:
    assert model().decode_response(answer(("text", "BYTES", [b"hi"]))) == "hi"
    assert model().decode_response(answer(("text", "BYTES", [b"\xff"]))) == b"\xff"
    assert model().decode_response(answer(("text", "BYTES", [b"a", b"b"]))) == ["a", "b"]
    assert model().decode_response(answer(("y", "INT32", [1]))).tolist() == [1]
    assert [*model().decode_response(answer(("a", "INT32", [1]), ("b", "BYTES", ["x"])))] == ["a", "b"]


def test_class_model_output_shape_may_differ_from_declaration() -> None:
    types = model(outputs=[declared("y", "FP64", [1, 1])])
    assert types.decode_response(answer(("y", "FP64", [1.0]))).tolist() == [1.0]


def test_invalid_response_names_the_output() -> None:
    with pytest.raises(CallFailed, match='output "output": takes one value, got 2'):
        derive_types(app["add"]).decode_response(answer(("output", "INT64", [1, 2])))


def test_json_argument_accepts_values_the_server_writes() -> None:
    types = model([declared("x", "BYTES", [1], content_type="json")])

    def sent(value: object) -> object:
        prepared = asyncio.run(types.prepare(types.check({"x": value}), {}))
        return prepared.request.inputs[0].data.flat()[0]

    assert sent({"a": {1}, "b": b"\xff", "c": np.float32(2)}) == '{"a":[1],"b":"/w==","c":2.0}'
    with pytest.raises(TypeError, match="type complex"):
        sent(1j)

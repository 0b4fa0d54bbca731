"""Which field each argument and output of a function is in its typed messages."""

import enum
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from inferstream import App, InferenceResponse, TensorInput
from inferstream.functions.function import Function
from inferstream.protos.typed import Method, build_method, field_type, identifier, json_name
from inferstream.protos.typed_files import build_file, message_classes
from inferstream.types import MetadataTensor, Parameters


class Color(enum.Enum):
    RED = "red"


class Point(NamedTuple):
    x: int
    label: str


def typed(function: Any, name: str | None = None, classic: bool = False, **options: Any) -> Method:
    """The typed RPC of a function of an app of its own."""
    app = App(service="shop.Prices", classic=classic)
    app._add(Function(function, name or function.__name__, app=app, **options))
    [added] = app
    method = build_method(added.name, added.signature())
    assert method is not None
    return method


SINGLES = [
    (str, "string"),
    (bytes, "bytes"),
    (int, "int64"),
    (float, "double"),
    (bool, "bool"),
    (datetime, "string"),
    (np.int8, "int32"),
    (np.int16, "int32"),
    (np.int32, "int32"),
    (np.int64, "int64"),
    (np.uint8, "uint32"),
    (np.uint16, "uint32"),
    (np.uint32, "uint32"),
    (np.uint64, "uint64"),
    (np.float16, "float"),
    (np.float32, "float"),
    (np.float64, "double"),
    (Literal["a", "b"], "string"),
    (Literal[1, 2], "int64"),
    (Color, "string"),
]


@pytest.mark.parametrize(("hint", "kind"), SINGLES, ids=str)
def test_single_value_and_list_have_their_table_type(hint: Any, kind: str) -> None:
    def f(a: hint, b: list[hint]) -> hint: ...

    method = typed(f)
    assert [field.label + field.type for field in method.request] == [f"optional {kind}", f"repeated {kind}"]
    [result] = method.response
    assert (result.name, result.number, result.label + result.type) == ("result", 1, f"optional {kind}")


FRAME = type("DataFrame", (), {"__module__": "pandas.core.frame"})


@pytest.mark.parametrize("hint", [dict, list[dict], tuple[int, ...], FRAME], ids=str)
def test_json_and_frames_are_string_and_bytes_in_classic_form(hint: Any) -> None:
    def f(a: hint) -> None: ...

    assert typed(f).request[0].declared == "string"
    assert typed(f, classic=True).request[0].declared == "bytes"


@pytest.mark.parametrize("hint", [TensorInput[np.float32, "n", 3], npt.NDArray[np.int8]], ids=str)
def test_arrays_are_tensors(hint: Any) -> None:
    def f(a: hint) -> None: ...

    assert typed(f).request[0].declared == "TensorProto"
    assert typed(f).needs_tensors


@pytest.mark.parametrize(
    ("content", "kind"), [("pd_json", "string"), ("json", "string"), ("image", "bytes"), ("base64", "bytes")]
)
def test_lists_of_scalars_are_repeated(content: str, kind: str) -> None:
    parameters = Parameters(content_type=content)
    tensor = MetadataTensor(name="a", datatype="BYTES", shape=[-1], parameters=parameters)
    assert field_type(tensor) == f"repeated {kind}"


def test_images_are_bytes() -> None:
    image = type("Image", (), {"__module__": "PIL.Image"})

    def f(a: image) -> None: ...

    assert typed(f).request[0].declared == "bytes"


def test_function_without_result_has_an_empty_response() -> None:
    def f(a: int) -> None: ...

    assert typed(f).response == ()


def test_several_outputs_have_names_and_numbers_in_order() -> None:
    def pair(a: int) -> tuple[str, list[int]]: ...
    def point(a: int) -> Point: ...

    assert [(field.name, field.number) for field in typed(pair).response] == [
        ("output_0", 1),
        ("output_1", 2),
    ]
    assert [(field.name, field.declared) for field in typed(point).response] == [
        ("x", "int64"),
        ("label", "string"),
    ]


def test_function_building_its_responses_has_no_typed_rpc() -> None:
    def f(a: int) -> InferenceResponse: ...

    app = App()
    app.model(f)
    assert build_method("f", app["f"].signature()) is None


def test_rpc_kind_follows_from_its_streams() -> None:
    def one(a: int) -> int: ...
    def down(a: int) -> Iterator[int]: ...
    async def up(a: AsyncIterator[int]) -> int: ...
    async def both(a: AsyncIterator[int]) -> AsyncIterator[int]: ...

    kinds = [(method.stream is not None, method.streams) for method in map(typed, (one, down, up, both))]
    assert kinds == [(False, False), (False, True), (True, False), (True, True)]
    for method, kind in zip(map(typed, (one, down, up, both)), kinds, strict=True):
        [described] = build_file([method]).service[0].method
        assert (described.client_streaming, described.server_streaming) == kind


def test_classic_form_matches_blazerpc() -> None:
    def f(a: float, b: list[float], c: int = 3, d: str | None = None) -> float: ...

    method = typed(f, classic=True)
    labels = [f"{field.label}{field.type}" for field in method.request]
    assert labels == ["float", "repeated float", "optional int64", "optional string"]
    assert [field.label + field.type for field in method.response] == ["float"]
    assert method.file == "blaze_service.proto"
    assert [message.name for message in build_file([method]).message_type] == [
        "TensorProto",
        "FRequest",
        "FResponse",
    ]


@pytest.mark.parametrize(
    ("name", "rpc", "request_"),
    [
        ("my-model", "PredictMyModel", "MyModelRequest"),
        ("3d", "Predict3d", "Model3dRequest"),
        ("größe", "PredictGru00f6u00dfe", "Gru00f6u00dfeRequest"),
        ("---", "Predict", "ModelRequest"),
    ],
)
def test_rpc_and_message_names_are_valid_in_protobuf(name: str, rpc: str, request_: str) -> None:
    def f(größe: int) -> None: ...

    method = typed(f, name)
    assert (method.path, method.messages[0]) == (f"/shop.Prices/{rpc}", request_)
    request, _ = message_classes(method)
    assert request.DESCRIPTOR.full_name == f"shop.{request_}"
    assert [*request.DESCRIPTOR.fields_by_name] == ["gru00f6u00dfe"]


def test_field_with_conflicting_json_name_is_renamed() -> None:
    def f(a_b: int, aB: int) -> None: ...

    request, _ = message_classes(typed(f))
    assert [field.name for field in request.DESCRIPTOR.fields] == ["a_b", "aB2"]


@pytest.mark.parametrize("name", ["a", "a_b", "_a", "a__b", "a_1", "aB", "A_b_", "a_B"])
def test_json_names_match_protobuf(name: str) -> None:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool

    file = FileDescriptorProto(name="x.proto", syntax="proto3")
    file.message_type.add(name="X").field.add(name=name, number=1, type="TYPE_INT32")
    pool = DescriptorPool()
    pool.Add(file)
    assert json_name(name) == pool.FindMessageTypeByName("X").fields[0].json_name
    assert identifier(name) == name

"""Reads typed requests, whole or cut, and names the argument of each fault."""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import numpy as np
import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from inferstream import App, TensorInput
from inferstream.errors import InvalidRequest
from inferstream.functions.function import Function
from inferstream.protos.grpc_requests import LARGE
from inferstream.protos.typed import build_method
from inferstream.protos.typed_files import message_classes
from inferstream.protos.typed_requests import RequestReader
from inferstream.types import InferenceRequest
from inferstream.types.forms import InputsForm


def everything(
    text: str,
    count: int,
    ratio: float = 0.5,
    yes: bool = True,
    raw: bytes = b"",
    texts: list[str] = ["a"],  # noqa: B006  # a default as users write it
    numbers: list[np.int32] | None = None,
    when: datetime | None = None,
    more: dict | None = None,
) -> None: ...


Pairs = TensorInput[np.float32, "batch", 2]
Numbers = TensorInput[np.int16, None]


def arrays(x: Pairs, y: Numbers = None, n: int = 0) -> None: ...


async def stream(items: AsyncIterator[int], start: int = 0) -> None: ...


async def lists(items: AsyncIterator[list[int]]) -> None: ...


def required(a: int, b: str, c: bool, d: list[int], e: float = 2.0) -> None: ...


def scalars(text: str, count: int, ratio: float = 0.5, yes: bool = True) -> None: ...


class Typed:
    """A function with the reader and the classes of its messages."""

    def __init__(self, function: Any, classic: bool = False) -> None:
        app = App(classic=classic)
        self.function = Function(function, function.__name__, app=app)
        app._add(self.function)
        method = build_method(self.function.name, self.function.signature())
        assert method is not None
        self.message, _ = message_classes(method)
        self.reader = RequestReader(method, self.message)

    def arguments(self, data: bytes | Message) -> dict[str, Any]:
        return self.function.arguments.read(self.read(data))

    def read(self, data: bytes | Message) -> InferenceRequest:
        return self.reader.read(data if isinstance(data, bytes) else data.SerializeToString())


EVERYTHING, ARRAYS, STREAM, LISTS, SCALARS = map(Typed, (everything, arrays, stream, lists, scalars))


def test_values_are_unchanged() -> None:
    values = {
        "text": "ü",
        "count": -(2**63),
        "ratio": 0.1,
        "yes": False,
        "raw": b"\xff\0",
        "texts": ["", "b"],
    }
    found = EVERYTHING.arguments(EVERYTHING.message(**values, numbers=[-(2**31)], more='{"a": [1]}'))
    assert found == {**values, "numbers": [-(2**31)], "more": {"a": [1]}, "when": None}
    found = EVERYTHING.arguments(EVERYTHING.message(text="", count=0, when="2026-01-02T03:04:05"))
    assert found["text"] == ""
    assert found["count"] == 0
    assert found["when"] == datetime.fromisoformat("2026-01-02T03:04:05")


@pytest.mark.parametrize(
    "given",
    [
        {"text": "ü", "count": -(2**63), "ratio": 0.1, "yes": False},
        {"text": "", "count": 0, "ratio": 0.0},
        {"text": "a", "count": 2**63 - 1},
    ],
)
def test_single_values_need_no_tensors(given: dict[str, Any]) -> None:
    form = SCALARS.function.arguments.form()
    request = SCALARS.reader.read(SCALARS.message(**given).SerializeToString(), form)
    assert request.form is form
    assert SCALARS.function.arguments.read(request) == given
    assert {tensor.name: tensor.data.root for tensor in request.inputs} == {
        name: [value] for name, value in given.items()
    }


def test_values_not_matching_the_model_signature_become_tensors() -> None:
    other = InputsForm({"text": "BYTES", "count": "FP64"})
    request = SCALARS.reader.read(SCALARS.message(text="a", count=1).SerializeToString(), other)
    assert request.form is None
    assert SCALARS.function.arguments.read(request) == {"text": "a", "count": 1}
    with pytest.raises(InvalidRequest, match='argument "count" is missing: field 2'):
        SCALARS.reader.read(SCALARS.message(text="a").SerializeToString(), SCALARS.function.arguments.form())
    items = InputsForm({"items": "INT64", "start": "INT64"})
    assert LISTS.reader.read(LISTS.message(items=[1]).SerializeToString(), items).form is None


def test_missing_optional_arguments_get_their_defaults() -> None:
    found = EVERYTHING.arguments(EVERYTHING.message(text="a", count=1))
    assert found == {"text": "a", "count": 1, "numbers": None, "when": None, "more": None}


def test_missing_argument_is_named() -> None:
    with pytest.raises(InvalidRequest, match='argument "count" is missing: field 2'):
        EVERYTHING.read(EVERYTHING.message(text="a"))
    with pytest.raises(InvalidRequest, match='argument "x" is missing'):
        ARRAYS.read(b"")


def test_required_scalars_in_classic_form_have_no_presence() -> None:
    classic = Typed(required, classic=True)
    assert classic.arguments(b"") == {"a": 0, "b": "", "c": False, "d": []}
    with pytest.raises(InvalidRequest, match='"a" is missing'):
        Typed(required).read(b"")
    assert classic.arguments(classic.message(e=0.0))["e"] == 0.0


@pytest.mark.parametrize("size", [1, LARGE])
def test_large_and_small_arrays_are_read(size: int) -> None:
    x = np.arange(2 * size, dtype="<f4").reshape(size, 2)
    y = np.arange(size, dtype="<i2")
    message = ARRAYS.message(
        x={"shape": x.shape, "dtype": "float", "data": x.tobytes()},
        y={"shape": y.shape, "dtype": "int16", "data": y.tobytes()},
        n=3,
    )
    found = ARRAYS.arguments(message)
    np.testing.assert_array_equal(found["x"], x)
    np.testing.assert_array_equal(found["y"], y)
    assert found["n"] == 3
    assert ARRAYS.arguments(message.SerializeToString() + ARRAYS.message(n=4).SerializeToString())["n"] == 4


@pytest.mark.parametrize(
    ("dtype", "shape", "data", "fault"),
    [
        ("float", [1, 2], bytes(7), "needs 8 bytes of FP32, got 7"),
        ("float", [2, 2], bytes(8), "needs 16 bytes of FP32, got 8"),
        ("float", [-1, 2], bytes(8), "shape [-1, 2] needs"),
        ("float", [2**62, 2**62], bytes(8), "got 8"),
        ("bool", [1, 2], b"\0\2", "BOOL needs bytes that are 0 or 1"),
    ],
)
def test_data_not_matching_its_shape_names_the_argument(
    dtype: str, shape: list[int], data: bytes, fault: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        ARRAYS.read(ARRAYS.message(x={"dtype": dtype, "shape": shape, "data": data}))
    assert 'argument "x" in field 1: ' in caught.value.message
    assert fault in caught.value.message


@pytest.mark.parametrize(
    ("tensor", "fault"),
    [
        ({"shape": [1, 2], "dtype": "floaty", "data": b"\0" * 8}, 'dtype "floaty"; the model takes "float"'),
        ({"shape": [1, 2], "data": b"\0" * 8}, 'dtype ""'),
        ({"shape": [1, 2], "dtype": "string", "data": b"\0" * 8}, 'dtype "string"'),
    ],
)
def test_wrong_dtype_names_the_argument(tensor: dict, fault: str) -> None:
    with pytest.raises(InvalidRequest, match=f'argument "x" in field 1 has {fault}'):
        ARRAYS.read(ARRAYS.message(x=tensor))


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"\x50\x01", "field 10 is no argument of the model; it takes text = 1, count = 2, ratio = 3"),
        (b"\x08\x01", 'argument "text" in field 1 is no string'),
        (b"\x12\x01a", 'argument "count" in field 2 is no int64'),
        (b"\x0a\x02\xff\xfe", 'argument "text" in field 1 is not UTF-8 text'),
        (b"\x0a\x01a\x32\x01\xff", 'argument "texts" in field 6 is not UTF-8 text'),
        (b"\x0a\x10a", 'argument "text" in field 1 is cut off'),
        (b"\x10\xff", 'argument "count" in field 2 is cut off'),
        (b"\x16\x01", 'argument "count" in field 2 is cut off'),
        (b"\x00", "The message is not a EverythingRequest"),
        (b"\xff" * 20, "The message is not a EverythingRequest"),
    ],
)
def test_message_error_names_its_field(data: bytes, fault: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        EVERYTHING.read(data)
    assert fault in caught.value.message


@given(st.binary(max_size=60))
def test_any_message_is_read_or_refused(data: bytes) -> None:
    for typed in (EVERYTHING, ARRAYS, STREAM):
        for read in (typed.reader.read, typed.reader.read_later if typed is STREAM else typed.reader.read):
            try:
                read(data)
            except InvalidRequest:
                continue


def test_later_requests_contain_only_the_next_value() -> None:
    later = STREAM.reader.read_later
    assert later(STREAM.message(items=3).SerializeToString()).inputs[0].data[0] == 3
    assert later(b"").inputs == []
    with pytest.raises(
        InvalidRequest, match='argument "start" is in a later request, which takes only "items"'
    ):
        later(STREAM.message(items=3, start=1).SerializeToString())
    assert STREAM.arguments(STREAM.message(start=1)) == {"start": 1}


def test_empty_list_is_a_value_only_in_later_requests() -> None:
    assert LISTS.read(b"").inputs == []
    assert LISTS.function.arguments.read_later(LISTS.reader.read_later(b"")) == []

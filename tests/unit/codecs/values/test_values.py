"""Every type of argument: its declared tensor, round trips in each form of the wire, and its errors."""

import base64
import dataclasses
import enum
import math
import struct
import types
import typing
from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, StringConstraints
from typing_extensions import TypeAliasType, TypedDict

from inferstream import TensorInput, TensorOutput
from inferstream.codecs import StringCodec
from inferstream.codecs.values.base import Value
from inferstream.codecs.values.declared import value_of_tensor
from inferstream.codecs.values.hints import value_of, without_none
from inferstream.errors import CodecError
from inferstream.types import RequestInput, ResponseOutput, TensorData


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass
class Point:
    x: int
    y: float = 0.0


class Person(BaseModel):
    name: str
    born: date
    boss: "Person | None" = None
    renamed: int = Field(0, alias="re-named")


class Movie(TypedDict, total=False):
    title: str
    year: int


class Pair(NamedTuple):
    left: str
    right: int


UserId = typing.NewType("UserId", int)

Scalar = typing.TypeVar("Scalar", bound=np.generic)
Aliased = TypeAliasType(
    "Aliased", np.ndarray[tuple[int, ...], np.dtype[Scalar]], type_params=(Scalar,)
)  # NDArray of numpy 2.5

DAY = date(2024, 2, 29)
NOON = datetime(2024, 2, 29, 12, 0, 0, 123456, tzinfo=UTC)

SAMPLES: list[tuple[Any, Any]] = [
    (str, ""),
    (str, "a\0b é 🎈"),
    (bytes, b""),
    (bytes, b"\xff\x00text"),
    (bytes, b"plain text"),
    (int, 2**63 - 1),
    (int, -(2**63)),
    (float, -0.0),
    (float, 1e308),
    (float, math.inf),
    (bool, True),
    (datetime, NOON),
    (date, DAY),
    (time, time(1, 2, 3)),
    (np.uint8, 255),
    (np.float32, 0.5),
    (UserId, 7),
    (Literal["a", "b"], "a"),
    (Literal[1, 2], 2),
    (Color, Color.BLUE),
    (Level, Level.HIGH),
    (list[str], []),
    (list[str], ["", "é", "\0"]),
    (list[bytes], [b"\xff", b"", b"abc"]),
    (list[bytes], [b"abc", b"plain"]),
    (list[int], [1, -(2**63), 2**63 - 1]),
    (list[float], [0.5, -1.0]),
    (list[bool], [True, False]),
    (list[datetime], [NOON]),
    (list[Color], [Color.RED, Color.BLUE]),
    (Sequence[int], [3, 4]),
    (list[list[int]], [[1], [2, 3]]),
    (list[Point], [Point(1), Point(2, 0.5)]),
    (dict[str, Any], {"a": [1, None, {"b": "c"}]}),
    (dict[str, int], {"a": 1}),
    (Any, {"free": [True]}),
    (int | str, "either"),
    (Point, Point(1, 2.5)),
    (Person, Person(name="Ö", born=DAY, boss=Person(name="b", born=DAY), **{"re-named": 3})),
    (Movie, {"title": "M", "year": 1931}),
    (Pair, Pair("l", 3)),
    (tuple[int, str], (1, "b")),
    (Annotated[int, Field(gt=0)], 3),
    (Annotated[list[int], Field(max_length=2)], [1, 2]),
    (Annotated[dict[str, int], Field(min_length=1)], {"a": 1}),
]


def identity(sample: tuple[Any, Any]) -> str:
    return f"{getattr(sample[0], '__name__', sample[0])}-{sample[1]!r}"[:60]


def through_binary(tensor: Any) -> Any:
    """The same tensor as gRPC and binary tensors carry it."""
    raw = TensorData.from_raw(bytes(tensor.data.to_raw(tensor.datatype)), tensor.datatype)
    return type(tensor).of(**{**tensor.__dict__, "data": raw})


def through_json(value: Value, name: str, tensor: RequestInput) -> RequestInput:
    """The same values as a client writes them in JSON: as the flat object has them."""
    flat = orjson.loads(orjson.dumps(value.to_json(value.read(tensor))))
    return value_of_tensor(value.tensor(name)).input_from_flat(name, flat)


@pytest.mark.parametrize("sample", SAMPLES, ids=identity)
def test_values_return_unchanged_from_every_form_of_the_wire(sample: tuple[Any, Any]) -> None:
    hint, given_value = sample
    value = value_of(hint)
    tensor = value.encode_input("x", given_value)
    tensor.data.check(tensor.datatype, tensor.shape)
    assert tensor.datatype == value.tensor("x").datatype
    assert value.decode_input(tensor) == given_value
    assert value.decode_input(through_binary(tensor)) == given_value
    output = value.encode_output("x", given_value)
    assert value.decode_output(output) == given_value
    assert value.decode_output(through_binary(output)) == given_value
    if given_value != math.inf:  # JSON has no infinity
        assert value.decode_input(through_json(value, "x", tensor)) == given_value


@pytest.mark.parametrize("sample", SAMPLES, ids=identity)
def test_metadata_alone_says_how_to_send_a_value(sample: tuple[Any, Any]) -> None:
    hint, given_value = sample
    value = value_of(hint)
    declared = value.tensor("x")
    plain = orjson.loads(orjson.dumps(value.to_json(given_value))) if given_value != math.inf else 1.0
    client = value_of_tensor(type(declared).model_validate_json(declared.model_dump_json()))
    there = client.encode_input("x", client.from_json(plain))
    assert value.to_json(value.decode_input(there)) is not None
    assert (client.datatype, client.shape) == (value.datatype, value.shape)


@pytest.mark.parametrize(
    ("hint", "datatype", "shape", "content"),
    [
        (str, "BYTES", [1], "str"),
        (bytes, "BYTES", [1], "base64"),
        (int, "INT64", [1], None),
        (float, "FP64", [1], None),
        (bool, "BOOL", [1], None),
        (datetime, "BYTES", [1], "datetime"),
        (list[str], "BYTES", [-1], "str"),
        (list[int], "INT64", [-1], None),
        (Color, "BYTES", [1], "str"),
        (Level, "INT64", [1], None),
        (Point, "BYTES", [1], "json"),
        (npt.NDArray[np.float32], "FP32", [-1], "np"),
        (Aliased[np.float32], "FP32", [-1], "np"),
        (np.ndarray[tuple[int, int], np.dtype[np.int16]], "INT16", [-1, -1], "np"),
        (TensorInput[np.float32, "n", 224, None], "FP32", [-1, 224, -1], "np"),
        (TensorOutput[np.uint8], "UINT8", [-1], "np"),
    ],
)
def test_each_type_has_its_tensor(hint: Any, datatype: str, shape: list[int], content: str | None) -> None:
    tensor = value_of(hint).tensor("x")
    found = None if tensor.parameters is None else tensor.parameters.content_type
    assert (tensor.datatype, tensor.shape, found) == (datatype, shape, content)


def test_metadata_lists_choices_schemas_dimensions_and_constraints() -> None:
    def parameter(hint: Any, name: str) -> Any:
        parameters = value_of(hint).tensor("x").parameters
        assert parameters is not None
        return orjson.loads(parameters.get(name))

    assert parameter(Color, "choices") == ["red", "blue"]
    assert parameter(list[Literal[1, 2]], "choices") == [1, 2]
    assert parameter(TensorInput[np.int8, "n", 3, None], "dimensions") == ["n", 3, None]
    assert parameter(Point, "schema")["title"] == "Point"
    assert parameter(Annotated[int, Field(gt=0)], "schema")["exclusiveMinimum"] == 0


WRONG: list[tuple[Any, Any, str]] = [
    (int, "3", "takes INT64, got BYTES"),
    (int, 2**63, "out of range"),
    (int, 1.5, "takes INT64, got FP64"),
    (float, "x", "takes FP64, got BYTES"),
    (bool, 1, "takes BOOL, got INT64"),
    (str, 1, "takes BYTES, got INT64"),
    (str, b"\xff", "not UTF-8"),
    (bytes, "no base64!", "not valid base64"),
    (datetime, "yesterday", "not an ISO 8601 datetime"),
    (date, "2024-02-30", "not an ISO 8601 date"),
    (np.uint8, 256, "out of range for UINT8"),
    (Color, "green", "takes one of 'red', 'blue', got 'green'"),
    (Level, 3, "takes one of 1, 2, got 3"),
    (list[int], ["a"], "takes INT64, got BYTES"),
    (list[Color], ["red", "green"], "element 1 takes one of"),
    (list[datetime], [NOON.isoformat(), "x"], "element 1 not an ISO 8601"),
    (Point, '{"x": "a"}', 'field "x": input should be a valid integer'),
    (Point, "{", "not valid JSON"),
    (Any, "{", "not valid JSON"),
    (Person, '{"name": "a"}', 'field "born": field required'),
    (list[Point], '[{"x": 1}, {}]', 'field "1.x": field required'),
    (Annotated[int, Field(gt=0)], 0, "greater than 0"),
    (Annotated[str, StringConstraints(max_length=2)], "abc", "at most 2 characters"),
]


def untyped(name: str, values: Any) -> RequestInput:
    """The tensor of a client that does not know the types."""
    flat = values if isinstance(values, list) else [values]
    kinds: dict[type, str] = {bool: "BOOL", int: "INT64", float: "FP64"}
    return RequestInput.of(
        name=name, datatype=kinds.get(type(flat[0]), "BYTES"), shape=[len(flat)], data=TensorData(flat)
    )


@pytest.mark.parametrize(("hint", "sent", "message"), WRONG)
def test_wrong_values_are_named(hint: Any, sent: Any, message: str) -> None:
    with pytest.raises(CodecError) as caught:
        value_of(hint).decode_input(untyped("x", sent))
    assert caught.value.message.startswith('input "x": ')
    assert message in caught.value.message


def test_a_number_among_texts_is_named() -> None:
    numbers = RequestInput.of(name="x", datatype="BYTES", shape=[1], data=TensorData([1]))
    with pytest.raises(CodecError, match='input "x": takes text, got 1'):
        value_of(str).decode_input(numbers)
    with pytest.raises(CodecError, match='input "x": needs text, got int'):
        StringCodec.decode_input(numbers)


@pytest.mark.parametrize(
    ("hint", "returned"),
    [
        (int, "3"),
        (int, 2**63),
        (int, True),
        (int, None),
        (float, None),
        (float, 10**400),
        (str, b"a"),
        (str, None),
        (bytes, "a"),
        (bool, 1),
        (datetime, "2024-01-01"),
        (date, NOON),
        (time, DAY),
        (Color, "green"),
        (Color, Level.LOW),
        (list[int], "ab"),
        (list[int], [1, "b"]),
        (list[str], ["a", None]),
        (Point, {"y": 1}),
        (dict[str, Any], {"a": object()}),
        (dict[str, bytes], {"a": b"\xff"}),
        (npt.NDArray[np.float32], ["a"]),
        (npt.NDArray[np.uint8], [256]),
        (npt.NDArray[np.int64], [1.5]),
        (npt.NDArray[np.int64], [[1], [2, 3]]),
        (TensorOutput[np.float32, 2], np.zeros(3, np.float32)),
        (Annotated[int, Field(gt=0)], -1),
    ],
)
def test_values_that_do_not_fit_are_not_written(hint: Any, returned: Any) -> None:
    value = value_of(hint)
    assert not value.can_encode(returned)
    with pytest.raises(CodecError, match='output "y"'):
        value.encode_output("y", returned)


def test_numpy_scalars_and_similar_types_are_written() -> None:
    assert value_of(float).encode_output("y", np.float32(0.5)).data.root == [0.5]
    assert value_of(int).encode_output("y", np.int8(3)).data.root == [3]
    assert value_of(bool).encode_output("y", np.bool_(True)).data.root == [True]
    assert value_of(bytes).encode_output("y", bytearray(b"a")).data.root == [b"a"]
    assert value_of(list[float]).encode_output("y", np.array([1.0, 2.0])).data.root == [1.0, 2.0]
    assert value_of(Color).encode_output("y", "red").data.root == ["red"]
    assert value_of(Point).encode_output("y", {"x": 3}).data.root == ['{"x":3,"y":0.0}']


def test_a_missing_number_is_nan_and_nothing_else_may_be_missing() -> None:
    null = untyped("x", [1.0])
    null.data = TensorData([None])
    assert math.isnan(value_of(float).decode_input(null))
    for hint in (int, bool, str, datetime, Color):
        null.datatype = value_of(hint).datatype
        with pytest.raises(CodecError, match="null"):
            value_of(hint).decode_input(null)


def test_a_large_list_is_read_at_once() -> None:
    """A tensor object for each of a million numbers took seconds."""
    numbers = np.arange(300_000, dtype=np.int64)
    tensor = RequestInput.of(name="x", datatype="INT64", shape=[300_000], data=TensorData(numbers))
    made = TensorData.__init__
    count = 0

    def counting(self: TensorData, root: Any) -> None:
        nonlocal count
        count += 1
        made(self, root)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TensorData, "__init__", counting)
        assert value_of(list[int]).decode_input(tensor)[-1] == 299_999
    assert count == 0


def test_one_value_of_many_is_refused_before_it_becomes_a_list() -> None:
    numbers = np.zeros(1000)
    tensor = RequestInput.of(name="x", datatype="FP64", shape=[1000], data=TensorData(numbers))
    with pytest.raises(CodecError, match="takes one value, got 1000"):
        value_of(float).decode_input(tensor)
    assert tensor.data.values is None


def test_numbers_widen_and_never_change() -> None:
    small = RequestInput.of(name="x", datatype="INT8", shape=[1], data=TensorData([7]))
    assert value_of(int).decode_input(small) == 7
    assert value_of(float).decode_input(small) == 7.0
    assert value_of(list[int]).decode_input(small) == [7]
    large = RequestInput.of(name="x", datatype="UINT64", shape=[1], data=TensorData([2**63]))
    with pytest.raises(CodecError, match="out of range"):
        value_of(int).decode_input(large)
    with pytest.raises(CodecError):
        value_of(list[int]).decode_input(large)


def test_arrays_keep_their_shape_and_check_their_dimensions() -> None:
    value = value_of(TensorInput[np.float32, "n", "n", 3])
    square = np.ones((2, 2, 3), np.float32)
    tensor = value.encode_input("x", square)
    assert tensor.shape == [2, 2, 3]
    assert np.array_equal(value.decode_input(through_binary(tensor)), square)
    assert value.from_json(square.tolist()).shape == (2, 2, 3)
    with pytest.raises(CodecError, match=r"takes shape \[n, n, 3\], got \[2, 1, 3\]"):
        value.encode_input("x", np.ones((2, 1, 3), np.float32))
    with pytest.raises(ValueError, match="takes shape"):
        value.from_json([1.0])
    with pytest.raises(ValueError, match="ragged"):
        value_of(npt.NDArray[np.float32]).from_json([[1], [2, 3]])
    assert value_of(npt.NDArray[np.float32]).from_json([[], []]).shape == (2, 0)


@pytest.mark.parametrize(
    "hint",
    [
        complex,
        type,
        typing.Callable[[int], int],
        types.SimpleNamespace,
        np.ndarray,
        npt.NDArray[np.str_],
        npt.NDArray[Any],
        TensorInput[np.complex64, 3],
        TensorInput[np.float32, -2],
        TensorInput[np.float32, True],
        TensorInput[np.float32, ""],
        Literal["a", 1],
        list[np.ndarray],
        dict[str, types.SimpleNamespace],
        type(None),
    ],
    ids=str,
)
def test_types_that_cannot_be_sent_are_refused(hint: Any) -> None:
    with pytest.raises(TypeError):
        value_of(hint)


def test_none_is_found_in_each_spelling() -> None:
    assert without_none(int | None) == (int, True)
    assert without_none(typing.Optional[int]) == (int, True)  # noqa: UP045
    assert without_none(Literal["a", None]) == (Literal["a"], True)
    assert without_none(Annotated[int | None, "said"]) == (Annotated[int, "said"], True)
    assert without_none(int | str | None) == (typing.Union[int, str], True)  # noqa: UP007
    assert without_none(int) == (int, False)


def test_the_items_of_a_batch_are_elements_of_their_own() -> None:
    value = value_of(list[list[float]], by_item=True)
    tensor = value.encode_input("x", [[1.0], [], [0.5, 2.0]])
    assert (tensor.datatype, tensor.shape) == ("BYTES", [3])
    assert value.decode_input(through_binary(tensor)) == [[1.0], [], [0.5, 2.0]]
    assert value.decode_input(through_json(value, "x", tensor)) == [[1.0], [], [0.5, 2.0]]
    assert value_of(list[int], by_item=True).encode_input("x", [1, 2]).datatype == "INT64"


def test_frames_travel() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "é"]})
    value = value_of(pd.DataFrame)
    assert value.decode_input(through_binary(value.encode_input("x", frame))).equals(frame)
    rows = value.input_from_flat("x", [{"a": 1, "b": "x"}, {"a": 2, "b": "é"}])
    assert value.decode_input(rows).equals(frame)
    for wrong in ("text", [[1], 3], {"a": [1], "b": [1, 2]}):
        with pytest.raises((TypeError, ValueError, CodecError)):
            value.decode_input(value.input_from_flat("x", wrong))


def test_images_travel_and_only_the_model_opens_them() -> None:
    pillow = pytest.importorskip("PIL.Image")
    image = pillow.new("RGB", (3, 2), (9, 8, 7))
    value = value_of(pillow.Image)
    tensor = value.encode_input("x", image)
    assert value.decode_input(through_binary(tensor)).getpixel((0, 0)) == (9, 8, 7)
    flat = value.input_from_flat("x", value.to_json(image))
    assert value.decode_input(flat).size == (3, 2)
    images = value_of(list[pillow.Image])
    several = images.encode_input("x", [image, image])
    assert several.shape == [2]
    assert images.decode_input(through_binary(several))[1].size == (3, 2)
    no_image = value.input_from_flat("x", "aGVsbG8=")
    with pytest.raises(CodecError, match="not an image"):
        value.decode_input(no_image)


@pytest.mark.filterwarnings("ignore:Image size")
@pytest.mark.parametrize(
    ("file", "fault"),
    [
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 3 3\n%%EndComments\n%%EOF\n", "EPS is a program"),
        (b"P5 4 4 255 " + bytes(16), "more than 15 pixels"),
        (b"DDS " + struct.pack("<7I44x8I20x", 124, 0, 1, 1, 0, 0, 0, 32, 1, 0, 0, 0, 0, 0, 0), "Error"),
    ],
)
def test_images_that_cost_more_than_pixels_are_refused(
    file: bytes, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pillow = pytest.importorskip("PIL.Image")
    monkeypatch.setattr(pillow, "MAX_IMAGE_PIXELS", 15)
    value = value_of(pillow.Image)
    with pytest.raises(CodecError, match=rf'input "x": not an image that can be read \(.*{fault}'):
        value.decode_input(value.input_from_flat("x", base64.b64encode(file).decode()))


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.binary(),
    st.lists(st.one_of(st.none(), st.integers(), st.text(), st.floats(), st.booleans()), max_size=4),
)


@settings(deadline=None)
@given(
    values=st.lists(VALUES, max_size=3), datatype=st.sampled_from(["BYTES", "INT64", "FP64", "BOOL", "FP32"])
)
def test_whatever_a_tensor_holds_reading_gives_a_value_or_a_named_error(
    values: list[Any], datatype: str
) -> None:
    for hint, _ in SAMPLES:
        tensor = RequestInput.of(name="x", datatype=datatype, shape=[len(values)], data=TensorData(values))
        try:
            tensor.data.check(datatype, tensor.shape)
            value_of(hint).decode_input(tensor)
        except (CodecError, ValueError):  # the second is of the check that every request gets
            continue


@settings(deadline=None)
@given(value=VALUES | st.dictionaries(st.text(max_size=3), VALUES, max_size=3))
def test_whatever_a_flat_object_holds_gives_an_input_or_an_error(value: Any) -> None:
    for hint, _ in SAMPLES:
        declared = value_of_tensor(value_of(hint).tensor("x"))
        try:
            tensor = declared.input_from_flat("x", value)
            value_of(hint).decode_input(tensor)
        except (TypeError, ValueError, CodecError):
            continue


def test_outputs_of_bytes_are_told_from_texts() -> None:
    """The JSON writer names base64 only where bytes are no text."""
    value = value_of(list[bytes])
    assert value.decode_output(
        ResponseOutput.of(name="y", datatype="BYTES", shape=[1], data=TensorData(["aGVsbG8="]))
    ) == [b"aGVsbG8="]


@pytest.mark.parametrize(
    ("hint", "values"),
    [
        (list[str], ["a", ""]),
        (list[bool], [True, False]),
        (list[int], [1, np.int8(-3), 2**63 - 1]),
        (list[float], [1, 0.5, np.float32(0.25), math.inf]),
        (list[np.float32], [0.5, np.float32(0.25)]),
        (list[np.int8], [127, -128]),
    ],
)
def test_the_elements_of_a_list_are_looked_at_together(
    hint: Any, values: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    value: Any = value_of(hint)
    one_by_one = [value.of.element(each) for each in values]

    def costly(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(type(value.of), "element", costly)
    monkeypatch.setattr(type(value.of), "from_json", costly)
    for shape, elements in (value.write(values), value.from_flat(values)):
        assert (shape, elements) == ([len(values)], one_by_one)
        assert [*map(type, elements)] == [*map(type, one_by_one)]
        assert elements is not values


@pytest.mark.parametrize(
    ("hint", "values", "fault"),
    [
        (list[int], [1, 2**63], "element 1 "),
        (list[int], [1, True], "element 1 takes an integer, got true"),
        (list[np.int8], [1, 128], "element 1 "),
        (list[np.float32], [1.0, 3.5e38], "element 1 a value is out of range for FP32"),
        (list[float], [1.0, 10**400], "element 1 "),
        (list[float], [1.0, "2"], "element 1 takes a number, got '2'"),
        (list[str], ["a", 1], "element 1 takes text, got 1"),
        (list[bool], [True, 1], "element 1 takes true or false, got 1"),
    ],
)
def test_a_wrong_element_of_a_list_is_named(hint: Any, values: list[Any], fault: str) -> None:
    value: Any = value_of(hint)
    for convert in (value.write, value.from_flat):
        with pytest.raises((TypeError, ValueError)) as wrong:
            convert(values)
        assert str(wrong.value).startswith(fault)

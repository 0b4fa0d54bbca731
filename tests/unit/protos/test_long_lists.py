"""Long lists at unusual places, or with unusual contents, are read as short ones are."""

from typing import Any

import orjson
import pytest

from inferstream.codecs.values.flat import FlatArguments
from inferstream.errors import InvalidRequest
from inferstream.protos import json_arrays
from inferstream.protos.generate import parse_arguments, parse_flat
from inferstream.protos.json_arrays import LARGE
from inferstream.protos.json_checks import NAMED
from inferstream.protos.json_requests import build_request, load_request
from inferstream.types import InferenceRequest, MetadataTensor
from inferstream.types.json_numbers import PIECE, NumbersText

SPACES = b" " * LARGE
DECLARED = [MetadataTensor(name="x", datatype="INT64", shape=[-1])]


def v2(data: bytes, shape: bytes = b"[1]", more: bytes = b"") -> bytes:
    return b'{"inputs":[{"name":"x","datatype":"INT64","shape":%b,"data":%b}]%b}' % (shape, data, more)


def read(text: bytes, nested: bool = False) -> InferenceRequest:
    return build_request(*load_request(text), None, nested=nested)[0]


@pytest.mark.parametrize("lists", [b"[%b]", b"[[%b]]", b"[[],[1%b]]", b"[[%b],[1]]", b"[[[%b]],[[1]]]"])
def test_list_with_missing_value_is_not_numeric(lists: bytes) -> None:
    assert NumbersText.of(lists % SPACES) is None
    text, short = (b'{"x":%b}' % (lists % spaces) for spaces in (SPACES, b""))
    for declared in ([], DECLARED):
        try:
            expected = parse_flat(orjson.loads(short), short, declared).model_dump()
        except InvalidRequest as error:
            expected = error.message
        try:
            found: Any = parse_flat(*load_request(text), declared).model_dump()
        except InvalidRequest as error:
            found = error.message
        assert found == expected


def test_long_lists_have_the_same_depth_limit() -> None:
    for depth in (32, 33):
        deep = b"[" * depth + b"1,2%b" + b"]" * depth
        assert (NumbersText.of(deep % SPACES) is None) is (depth == 33)


NUMBERS = b"[%b]" % b",".join([b"1"] * LARGE)


@pytest.mark.parametrize("found", [NUMBERS, NUMBERS[:-1] + b",]"])
def test_long_list_is_not_a_parameter(found: bytes) -> None:
    text = b'{"x":[1],"y":%b}' % found
    with pytest.raises(InvalidRequest, match='parameter "y" must be a string, a number or a boolean'):
        parse_flat(*load_request(text), DECLARED)


def test_unused_long_list_must_be_valid_json() -> None:
    assert read(v2(b"[1]", more=b',"y":%b' % NUMBERS)).inputs[0].shape == [1]
    with pytest.raises(InvalidRequest, match='"y" is not valid JSON'):
        read(v2(b"[1]", more=b',"y":%b,]' % NUMBERS[:-1]))


def test_json_in_a_string_is_not_a_numeric_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_arrays, "MAX_PLAIN", 0)
    inner = orjson.dumps({"a": [1] * LARGE, "b": {"c": [1] * LARGE}}).decode()
    text = orjson.dumps({"parameters": {"p": inner}, "inputs": []})
    assert read(text).parameters.p == inner


def test_unused_objects_are_checked_for_duplicate_keys() -> None:
    long = b'"%b"' % (b"a" * NAMED)
    more = b',"z":%b,"y":{"k":1},"parameters":{"p":{"q":{"r":2}}}' % long
    assert read(v2(b"[1]", more=more), nested=True).parameters.p == {"q": {"r": 2}}
    with pytest.raises(InvalidRequest, match="given twice"):
        read(v2(b"[1]", more=more.replace(b'"k":1', b'"k":1,"k":1')), nested=True)


def test_data_of_json_argument_is_python_objects() -> None:
    tensor = MetadataTensor(name="inputs", datatype="BYTES", shape=[1], parameters={"content_type": "json"})
    interface = FlatArguments([tensor], strict=True)
    document, text = load_request(b'{"inputs":[{"data":%b}]}' % NUMBERS)
    values, _ = parse_arguments(document, text, interface.names)
    (found,) = interface.read(values)
    assert orjson.loads(found.data.flat()[0]) == [{"data": [1] * LARGE}]


@pytest.mark.parametrize("datatype", [b"FP64", b"FP32", b"INT64", b"BOOL"])
def test_number_beyond_float_range_is_refused(datatype: bytes) -> None:
    text = v2(NUMBERS[:-1] + b",1e400]").replace(b"INT64", datatype)
    with pytest.raises(InvalidRequest, match="number is infinity when parsed as double"):
        read(text)


def test_invalid_list_after_out_of_range_number_is_refused() -> None:
    data = b"[4.5," + b"1," * PIECE + b"]"
    with pytest.raises(InvalidRequest, match='input "x": data is not valid JSON'):
        read(v2(data), nested=True)


def test_unterminated_list_is_refused() -> None:
    assert NumbersText.of(b"[1,[2,3]") is None
    with pytest.raises(InvalidRequest, match="not valid JSON"):
        read(v2(b"[" + b"1," * PIECE + b"[1]", b"[%d]" % (PIECE + 1)))


def test_numbers_before_a_string_are_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_arrays, "MAX_PLAIN", 0)
    monkeypatch.setattr(json_arrays, "MAX_COMMAS", 10 * LARGE)
    assert load_request(b'{"id":[1,%b,"a"]}' % NUMBERS)[0] == {"id": [1, [1] * LARGE, "a"]}

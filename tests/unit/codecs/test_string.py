"""Lists of text."""

from typing import Any

import pytest

from inferstream.codecs.string import StringCodec, decode_str, decode_strings
from inferstream.errors import CodecError
from inferstream.types import RequestInput, TensorData


def column(*elements: Any) -> RequestInput:
    return RequestInput.of("x", [len(elements), 1], "BYTES", TensorData([*elements]))


@pytest.mark.parametrize("use_bytes", [True, False])
def test_missing_string_is_preserved_among_others(use_bytes: bool) -> None:
    tensor = StringCodec.encode_input("x", ["é", None, b"raw", ""], use_bytes=use_bytes)
    assert tensor.shape == [4, 1]
    assert StringCodec.decode_input(tensor) == ["é", None, "raw", ""]


@pytest.mark.parametrize(
    ("value", "text"), [(b"\xc3\xa9", "é"), ("é", "é"), (None, None), (bytearray(b"a"), "a")]
)
def test_utf_8_is_decoded(value: Any, text: str | None) -> None:
    assert decode_str(value) == text


def test_number_is_not_a_string() -> None:
    with pytest.raises(TypeError, match="needs text, got int"):
        decode_str(3)  # type: ignore[arg-type]
    with pytest.raises(CodecError, match='output "y": cannot be encoded as "str": needs text, got int'):
        StringCodec.encode_output("y", ["a", 3])


def test_non_utf_8_bytes_name_their_tensor() -> None:
    with pytest.raises(ValueError, match="not UTF-8 text"):
        decode_strings(["a", b"\xff"])
    with pytest.raises(CodecError, match='input "x": not UTF-8 text'):
        StringCodec.decode_input(column(b"a", b"\xff"))


def test_any_shape_becomes_a_flat_list() -> None:
    tensor = RequestInput.of("x", [2, 2], "BYTES", TensorData([["a", "b"], ["c", "d"]]))
    assert StringCodec.decode_input(tensor) == ["a", "b", "c", "d"]

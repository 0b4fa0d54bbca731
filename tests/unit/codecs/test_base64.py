"""Lists of bytes as base64."""

from typing import Any

import numpy as np
import pytest

from inferstream.codecs.base64 import Base64Codec
from inferstream.errors import CodecError
from inferstream.types import RequestInput, TensorData


@pytest.mark.parametrize("value", [b"\xff\0", bytearray(b"\xff\0"), memoryview(b"\xff\0")])
def test_bytes_like_objects_are_encoded(value: Any) -> None:
    tensor = Base64Codec.encode_output("y", [value, "é"])
    assert tensor.data.flat() == [b"/wA=", b"w6k="]
    assert Base64Codec.decode_output(tensor) == [b"\xff\0", "é".encode()]


@pytest.mark.parametrize("value", [np.float64(1.5), 3, None])
def test_objects_without_bytes_are_refused(value: Any) -> None:
    with pytest.raises(CodecError, match='output "y": cannot be encoded as "base64": needs bytes, got'):
        Base64Codec.encode_output("y", [value])


@pytest.mark.parametrize(
    ("element", "reason"), [("a*==", "not valid base64"), (None, "a value is missing"), ("abc", "padding")]
)
def test_invalid_base64_names_its_tensor(element: Any, reason: str) -> None:
    tensor = RequestInput.of("x", [2, 1], "BYTES", TensorData(["YQ==", element]))
    with pytest.raises(CodecError, match=f'input "x": not valid base64.*{reason}|input "x": {reason}'):
        Base64Codec.decode_input(tensor)


def test_empty_list_matches_no_codec() -> None:
    assert Base64Codec.can_encode([b"a"])
    assert not Base64Codec.can_encode([])
    assert not Base64Codec.can_encode([b"a", "b"])

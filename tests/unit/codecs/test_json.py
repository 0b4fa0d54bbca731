"""Dictionaries and other JSON values."""

import numpy as np
import pytest

from inferstream.codecs.json import DictCodec
from inferstream.errors import CodecNotFound


def test_dictionary_has_one_tensor_per_key() -> None:
    payload = {"a": np.eye(2), "b": ["x", "y"]}
    found = DictCodec.decode_request(DictCodec.encode_request(payload))
    assert np.array_equal(found["a"], payload["a"])
    assert found["b"] == payload["b"]


@pytest.mark.parametrize(
    ("payload", "content_type", "data"),
    [
        ("abc", "str", [b"abc"]),
        (["a", "b"], "str", [b"a", b"b"]),
        (b"\x00", "base64", [b"AA=="]),
        (True, "np", [True]),
        ([[1, 2], [3, 4]], "np", [1, 2, 3, 4]),
        ({"k": float("nan")}, "json", [b'{"k":null}']),
        ([{"k": np.arange(2)}], "json", [b'{"k":[0,1]}']),
    ],
)
def test_dictionary_has_plain_python_values(payload, content_type: str, data: list) -> None:
    (tensor,) = DictCodec.encode_request({"a": payload}).inputs
    assert (tensor.name, tensor.parameters.content_type, tensor.data.root) == ("a", content_type, data)
    with pytest.raises(CodecNotFound, match="input 'b' of type object"):
        DictCodec.encode_request({"b": object()})

"""Values of which nothing is declared, as tensors and back."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from inferstream.codecs.undeclared_tensors import decode, encode
from inferstream.errors import CodecError
from inferstream.types import RequestInput, ResponseOutput, TensorData


@pytest.mark.parametrize(
    ("value", "datatype", "shape"),
    [
        (3, "INT64", [1]),
        (0.5, "FP64", [1]),
        (True, "BOOL", [1]),
        ("a", "BYTES", [1, 1]),
        (b"\xff", "BYTES", [1]),
        ([1, 2], "INT64", [2]),
        (["a", None], "BYTES", [2, 1]),
        ([b"a", b"\0"], "BYTES", [2]),
        (np.zeros((2, 3), np.float32), "FP32", [2, 3]),
    ],
)
def test_value_is_encoded_by_its_type(value: Any, datatype: str, shape: list[int]) -> None:
    tensor = encode("x", value)
    assert (tensor.name, tensor.datatype, tensor.shape) == ("x", datatype, shape)
    tensor.data.check(tensor.datatype, tensor.shape)


def test_tensor_is_unchanged_and_other_values_use_codecs() -> None:
    tensor = encode("x", 3)
    assert encode("other", tensor) is tensor
    moment = encode("x", [datetime(2026, 1, 2, tzinfo=UTC)])
    assert moment.parameters is not None
    assert moment.parameters.content_type == "datetime"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (object(), "no codec makes a tensor of a object"),
        ([[1], [2, 3]], 'input "x"'),
        ({"a": 1}, 'input "x"'),
    ],
)
def test_unsupported_value_is_named(value: Any, reason: str) -> None:
    with pytest.raises(CodecError, match=reason):
        encode("x", value)


def output(datatype: str, shape: list[int], data: Any, content: str | None = None) -> ResponseOutput:
    parameters = None if content is None else {"content_type": content}
    return ResponseOutput(
        name="y", datatype=datatype, shape=shape, data=TensorData(data), parameters=parameters
    )


@pytest.mark.parametrize(
    ("tensor", "value"),
    [
        (output("BYTES", [1], ["text"]), "text"),
        (output("BYTES", [1], [b"\xff"]), b"\xff"),
        (output("BYTES", [2], ["a", "b"]), ["a", "b"]),
        (output("BYTES", [2], [b"a", b"\xff"]), [b"a", b"\xff"]),
        (output("BYTES", [1], ['{"a":1}'], "json"), {"a": 1}),
        (output("BYTES", [1], ["2026-01-02T00:00:00+00:00"], "datetime"), datetime(2026, 1, 2, tzinfo=UTC)),
    ],
)
def test_output_is_decoded_by_content_type_or_data(tensor: ResponseOutput, value: Any) -> None:
    assert decode(tensor) == value


def test_numbers_become_an_array_of_their_shape() -> None:
    array = decode(output("INT32", [2, 2], [1, 2, 3, 4]))
    assert array.tolist() == [[1, 2], [3, 4]]
    assert array.dtype == np.int32


def test_invalid_text_bytes_are_refused() -> None:
    with pytest.raises(CodecError, match='"y"'):
        decode(output("BYTES", [1], [b"\xff"], "str"))


def test_input_round_trips() -> None:
    sent: RequestInput = encode("x", np.array([[1.5, 2.5]]))
    back = ResponseOutput(name="x", datatype=sent.datatype, shape=sent.shape, data=sent.data)
    assert decode(back).tolist() == [[1.5, 2.5]]

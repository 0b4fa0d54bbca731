"""Typed messages as a client writes and reads them."""

from typing import Any

import numpy as np
import pytest

from inferstream import App, TensorInput, TensorOutput
from inferstream.codecs.values.hints import value_for
from inferstream.errors import CallFailed
from inferstream.functions.function import Function
from inferstream.protos.typed import build_method
from inferstream.protos.typed_client import TypedMessages
from inferstream.types import InferenceRequest, RequestInput

Numbers = TensorInput[np.float32, "n"]
Result = TensorOutput[np.float32, "n"]


def scale(x: Numbers, by: int = 1, words: list[str] | None = None) -> Result: ...


def count(n: int) -> int | None: ...


def messages(function: Any) -> TypedMessages:
    app = App()
    made = Function(function, function.__name__, app=app)
    app._add(made)
    method = build_method(made.name, made.signature())
    assert method is not None
    return TypedMessages(method)


def request(*tensors: RequestInput) -> InferenceRequest:
    return InferenceRequest(inputs=[*tensors])


def test_arguments_are_fields_and_arrays_keep_shape_and_dtype() -> None:
    typed = messages(scale)
    data = typed.write(
        request(
            value_for(Numbers).encode_input("x", np.array([1.5, 2.5], np.float32)),
            value_for(int).encode_input("by", 3),
            value_for(list[str]).encode_input("words", ["a", "é"]),
        )
    )
    message: Any = typed._request.FromString(data)
    assert ([*message.x.shape], message.x.dtype) == ([2], "float")
    assert np.frombuffer(message.x.data, np.float32).tolist() == [1.5, 2.5]
    assert (message.by, [*message.words]) == (3, ["a", "é"])


def test_empty_array_is_an_argument() -> None:
    typed = messages(scale)
    data = typed.write(request(value_for(Numbers).encode_input("x", np.zeros(0, np.float32))))
    assert typed._request.FromString(data).HasField("x")


def test_unsupported_value_is_named() -> None:
    with pytest.raises(ValueError, match=r'^argument "n": '):
        messages(count).write(request(value_for(str).encode_input("n", "a")))


def test_response_has_the_present_outputs() -> None:
    typed = messages(scale)
    written: Any = typed._response()
    written.result.shape.extend([2])
    written.result.dtype = "float"
    written.result.data = np.array([3.0, 4.0], np.float32).tobytes()
    response = typed.read(written.SerializeToString())
    assert (response.model_name, response.outputs[0].shape) == ("scale", [2])
    assert response.outputs[0].data.to_numpy("FP32").tolist() == [3.0, 4.0]


def test_invalid_response_is_reported() -> None:
    typed = messages(scale)
    with pytest.raises(CallFailed, match="answer is not a "):
        typed.read(b"\xff")
    written: Any = typed._response()
    written.result.dtype = "complex"
    with pytest.raises(CallFailed, match="an array of an unknown dtype: complex"):
        typed.read(written.SerializeToString())

"""What is written of a typed response without protobuf is what protobuf would have written."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferstream import App, TensorOutput
from inferstream.dataplane.outputs import Finish
from inferstream.errors import InvalidOutput
from inferstream.functions.function import Function
from inferstream.functions.results import ResultWriter
from inferstream.protos.typed import build_method
from inferstream.protos.typed_files import message_classes
from inferstream.protos.typed_responses import ResponseWriter
from inferstream.types import InferenceRequest, InferenceResponse, ResponseOutput


class Typed:
    """A function with the writer and the classes of its messages."""

    def __init__(self, hint: Any, classic: bool = False) -> None:
        def f() -> hint: ...

        app = App(classic=classic)
        function = Function(f, "f", app=app)
        app._add(function)
        method = build_method("f", function.signature())
        assert method is not None
        self.finish = Finish("f", None, None, (), ResultWriter(function.results, "f", None))
        _, self.message = message_classes(method)
        self.writer = ResponseWriter(method, self.message)

    def response(self, value: Any) -> InferenceResponse:
        return self.finish(value, InferenceRequest(id="id", inputs=[]))

    def write(self, value: Any) -> bytes:
        return self.response(value).accept(self.writer)

    def expected(self, value: Any) -> bytes:
        return self.message(result=value).SerializeToString()


numbers = {
    int: st.integers(-(2**63), 2**63 - 1),
    np.int8: st.integers(-128, 127),
    np.uint32: st.integers(0, 2**32 - 1),
    np.uint64: st.integers(0, 2**64 - 1),
    float: st.floats(),
    np.float32: st.floats(width=32),
    np.float16: st.floats(width=16),
    bool: st.booleans(),
}
values = {**numbers, str: st.text(max_size=300), bytes: st.binary(max_size=300)}
TYPED = {
    (hint, classic, many): Typed(list[hint] if many else hint, classic)
    for hint in values
    for classic in (False, True)
    for many in (False, True)
}


@given(st.data(), st.sampled_from([*values]), st.booleans())
def test_single_values(data: st.DataObject, hint: Any, classic: bool) -> None:
    typed, value = TYPED[hint, classic, False], data.draw(values[hint])
    assert typed.write(value) == typed.expected(value)
    # As a tensor, which workers send, and models that return responses of their own.
    response = typed.response(value)
    whole = InferenceResponse(model_name="f", outputs=[each.model_copy() for each in response.outputs])
    assert whole.accept(typed.writer) == typed.expected(value)


@given(st.data(), st.sampled_from([*values]), st.booleans())
def test_lists(data: st.DataObject, hint: Any, classic: bool) -> None:
    typed, listed = TYPED[hint, classic, True], data.draw(st.lists(values[hint], max_size=5))
    assert typed.write(listed) == typed.expected(listed)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i8", "u2", "?"])
@pytest.mark.parametrize("shape", [(), (0,), (2, 3), (1, 200)])
def test_arrays(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.arange(int(np.prod(shape))).astype(dtype).reshape(shape)
    typed = Typed(TensorOutput[array.dtype.type])
    names = {
        "f2": "half",
        "f4": "float",
        "f8": "double",
        "i1": "int8",
        "i8": "int64",
        "u2": "uint16",
        "?": "bool",
    }
    expected = {"shape": shape, "dtype": names[dtype], "data": array.tobytes()}
    assert typed.write(array) == typed.expected(expected)
    assert typed.write(np.array(array, order="F")) == typed.expected(expected)


def test_single_value_is_written_without_a_tensor() -> None:
    typed = Typed(str)
    response = typed.response("a")
    assert response.accept(typed.writer) == typed.expected("a")
    assert response.form is not None


def test_several_outputs_including_none() -> None:
    typed = Typed(tuple[str, list[int]])
    assert typed.write(("a", [1, 300])) == typed.message(output_0="a", output_1=[1, 300]).SerializeToString()
    assert Typed(None).write(None) == b""
    assert Typed(str | None).write(None) == b""


def test_undeclared_output_is_refused() -> None:
    typed = Typed(str)

    def response(**fields: Any) -> InferenceResponse:
        tensor = {"name": "output", "shape": [1], "datatype": "BYTES", "data": ["a"], **fields}
        return InferenceResponse(model_name="f", outputs=[ResponseOutput(**tensor)])

    assert response().accept(typed.writer) == typed.expected("a")
    for fields, fault in (
        ({"name": "x"}, 'returned the output "x", which FResponse does not have'),
        ({"data": ["a", "b"], "shape": [2]}, '"output" cannot be written: it has 2 values'),
        ({"data": [1], "datatype": "INT64"}, '"output" cannot be written'),
    ):
        with pytest.raises(InvalidOutput, match=fault):
            response(**fields).accept(typed.writer)
    with pytest.raises(InvalidOutput, match="surrogates"):
        typed.write("\ud800")

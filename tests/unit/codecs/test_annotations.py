"""What annotations say of tensors, and what they leave unknown."""

from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from typing import Any, Generic, TypeVar

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from inferstream.codecs import InputCodec, decode_args
from inferstream.codecs.registry import inputs as input_codecs
from inferstream.codecs.registry import register_input_codec
from inferstream.codecs.signature import decorated_signature
from inferstream.signature import Tensors
from inferstream.types import InferenceResponse, MetadataTensor

Matrix = np.ndarray[tuple[int, int], np.dtype[np.float32]]
Vector = np.ndarray[tuple[int], np.dtype[np.int64]]
T = TypeVar("T")


class Temperature(Generic[T]):
    """A type that only a codec of the author's knows."""


def signature(**annotations: Any):
    """What `decode_args` reads from a method with these arguments and what is `returned`."""
    names = [name for name in annotations if name != "returned"]
    code = f"def predict(self, {', '.join(names)}): ..."
    scope: dict[str, Any] = {}
    exec(code, scope)
    method = scope["predict"]
    method.__annotations__ = {name: annotations[name] for name in names}
    if "returned" in annotations:
        method.__annotations__["return"] = annotations["returned"]
    return decorated_signature(decode_args(method))


def described(tensors: Tensors | None) -> list[tuple[Any, ...]] | None:
    if tensors is None:
        return None
    return [
        (tensor.name, tensor.datatype, tensor.shape, tensor.parameters.content_type) for tensor in tensors
    ]


@pytest.mark.parametrize(
    ("hint", "datatype", "taken", "answered", "content_type"),
    [
        (list[str], "BYTES", [-1, 1], [-1, 1], "str"),
        (list[bytes], "BYTES", [-1, 1], [-1, 1], "base64"),
        (list[datetime], "BYTES", [-1, 1], [-1, 1], "datetime"),
        (list[dict], "BYTES", [-1, 1], [-1, 1], "json"),
        (NDArray[np.float32], "FP32", [-1], [-1, -1], "np"),
        (NDArray[np.bool_], "BOOL", [-1], [-1, -1], "np"),
        (NDArray[np.float16], "FP16", [-1], [-1, -1], "np"),
        (NDArray[np.str_], "BYTES", [-1], [-1, -1], "np"),
        (Matrix, "FP32", [-1, -1], [-1, -1], "np"),
        (Vector, "INT64", [-1], [-1, 1], "np"),  # the codec answers [N] as [N, 1] and takes both
    ],
)
def test_tensor_metadata_matches_the_codec(
    hint: Any, datatype: str, taken: list[int], answered: list[int], content_type: str
) -> None:
    found = signature(x=hint, returned=hint)
    assert described(found.inputs) == [("x", datatype, taken, content_type)]
    assert described(found.outputs) == [("output-0", datatype, answered, content_type)]
    assert (found.inputs_annotated, found.outputs_annotated) == (True, True)


@pytest.mark.parametrize(
    "hint", [np.ndarray, NDArray[Any], NDArray[np.floating], pd.DataFrame, dict[str, Any]]
)
def test_partial_hint_leaves_the_whole_side_unknown(hint: Any) -> None:
    assert signature(x=hint, y=list[str], returned=list[str]).inputs is None
    assert signature(x=list[str], returned=(list[str], hint)).outputs is None


@pytest.mark.parametrize(
    ("returned", "names"),
    [
        (tuple[list[str], Matrix], ["output-0", "output-1"]),
        ((list[str], Matrix), ["output-0", "output-1"]),
        (list[str] | None, ["output-0"]),
        (AsyncIterator[list[str]], ["output-0"]),
        (Iterator[tuple[list[str], Matrix]], ["output-0", "output-1"]),
        (type(None), []),
        (InferenceResponse, None),
        (AsyncIterator[InferenceResponse], None),
    ],
)
def test_outputs_have_their_response_names(returned: Any, names: list[str] | None) -> None:
    found = signature(x=list[str], returned=returned).outputs
    assert (None if found is None else [tensor.name for tensor in found]) == names


def test_outputs_are_unknown_without_return_annotation() -> None:
    assert signature(x=list[str]).outputs is None


def test_optional_argument_is_an_optional_input() -> None:
    @decode_args
    def predict(
        self: Any,
        a: list[str],
        b: list[str] | None,
        c: list[str] = ["c"],  # noqa: B006
        scale=2,
        *args: Any,
        **more: Any,
    ) -> list[str]:
        """Joins texts.

        Twice.
        """

    found = decorated_signature(predict)
    optional = {tensor.name: tensor.parameters.get("optional") for tensor in found.inputs}
    assert optional == {"a": None, "b": True, "c": True}
    assert found.doc == "Joins texts.\n\nTwice."


def test_generator_method_has_a_streaming_signature() -> None:
    @decode_args
    async def generator(self: Any, x: list[str]) -> AsyncIterator[list[str]]:
        yield x

    @decode_args
    def blocking(self: Any, x: list[str]):
        yield x

    assert decorated_signature(generator).streams
    assert decorated_signature(blocking).streams
    assert signature(x=list[str], returned=Iterator[list[str]]).streams
    assert not signature(x=list[str], returned=list[str]).streams


def test_custom_codec_may_describe_its_tensor() -> None:
    class Silent(InputCodec):
        ContentType = "silent"
        TypeHint = Temperature[int]

    class Speaking(InputCodec):
        ContentType = "speaking"
        TypeHint = Temperature[float]

        @classmethod
        def describe_tensor(cls, name: str, hint: Any, is_output: bool) -> MetadataTensor:
            return MetadataTensor(name=name, datatype="FP32", shape=[-1])

    try:
        register_input_codec(Silent)
        register_input_codec(Speaking)
        assert signature(x=Temperature[int]).inputs is None
        (tensor,) = signature(x=Temperature[float] | None).inputs
    finally:
        for content_type in ("silent", "speaking"):
            input_codecs.codecs.pop(content_type)
    assert (tensor.datatype, tensor.shape) == ("FP32", [-1])
    assert tensor.parameters.get("optional") is True


def test_undecorated_method_has_no_signature() -> None:
    assert decorated_signature(len) is None

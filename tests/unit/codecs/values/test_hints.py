"""Annotations, and the values that they stand for."""

import types
import typing
from datetime import datetime
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
import pytest

from inferstream import TensorInput, TensorOutput
from inferstream.codecs.values.hints import value_for, without_none

from .samples import Aliased, Color, Level, Point


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
def test_every_supported_type_has_a_tensor(
    hint: Any, datatype: str, shape: list[int], content: str | None
) -> None:
    tensor = value_for(hint).tensor("x")
    found = None if tensor.parameters is None else tensor.parameters.content_type
    assert (tensor.datatype, tensor.shape, found) == (datatype, shape, content)


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
        list[np.ndarray],
        dict[str, types.SimpleNamespace],
        type(None),
    ],
    ids=str,
)
def test_unsupported_types_are_refused(hint: Any) -> None:
    with pytest.raises(TypeError):
        value_for(hint)


def test_none_is_recognized_in_every_spelling() -> None:
    assert without_none(int | None) == (int, True)
    assert without_none(typing.Optional[int]) == (int, True)  # noqa: UP045
    assert without_none(Literal["a", None]) == (Literal["a"], True)
    assert without_none(Annotated[int | None, "said"]) == (Annotated[int, "said"], True)
    assert without_none(int | str | None) == (typing.Union[int, str], True)  # noqa: UP007
    assert without_none(int) == (int, False)

"""Arrays, their shapes and their dimensions."""

import numpy as np
import numpy.typing as npt
import pytest

from inferstream import TensorInput
from inferstream.codecs.values.hints import value_for
from inferstream.errors import CodecError

from .samples import through_binary


def test_arrays_keep_shape_and_check_dimensions() -> None:
    value = value_for(TensorInput[np.float32, "n", "n", 3])
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
        value_for(npt.NDArray[np.float32]).from_json([[1], [2, 3]])
    assert value_for(npt.NDArray[np.float32]).from_json([[], []]).shape == (2, 0)

"""Numbers leave flat, whichever form a model gave them."""

import numpy as np
import pytest

from inferstream.errors import InvalidOutput
from inferstream.protos.json_responses import json_values
from inferstream.types import TensorData


@pytest.mark.parametrize(
    ("data", "flat"), [(1.5, [1.5]), ([], []), ([1, 2], [1, 2]), ([[1, 2], [3, 4]], [1, 2, 3, 4])]
)
def test_numbers_are_written_as_a_flat_list(data: object, flat: list) -> None:
    assert json_values(TensorData(data), "FP32") == (flat, False)


@pytest.mark.parametrize("data", [np.array([1, 3]), np.array([1, None], object)])
def test_numbers_are_not_written_as_bytes(data: np.ndarray) -> None:
    with pytest.raises(InvalidOutput, match="cannot be written as JSON"):
        json_values(TensorData(data), "BYTES")
    with pytest.raises(ValueError, match="BYTES needs strings"):
        TensorData(data).check("BYTES", [2])


@pytest.mark.parametrize("split", [False, True])
def test_bytes_are_base64_and_strings_are_not(split: bool) -> None:
    for binary, expected in ((False, (["a", "b"], False)), (True, (["YQ==", "Yg=="], True))):
        data = TensorData([b"a", b"b"], binary=binary)
        if split:
            [data] = data.split("BYTES", [2])
        assert json_values(data, "BYTES") == expected

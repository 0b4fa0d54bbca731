"""Numbers leave flat, whichever form a model gave them."""

import pytest

from inferstream.protos.json_responses import json_values
from inferstream.types import TensorData


@pytest.mark.parametrize(
    ("data", "flat"), [(1.5, [1.5]), ([], []), ([1, 2], [1, 2]), ([[1, 2], [3, 4]], [1, 2, 3, 4])]
)
def test_numbers_are_a_flat_list(data: object, flat: list) -> None:
    assert json_values(TensorData(data), "FP32") == (flat, False)

"""How many tensors a request may have."""

import pytest

from inferstream.errors import InvalidRequest
from inferstream.protos.counts import MAX_TENSORS, expect_tensors


def test_number_of_tensors_is_limited() -> None:
    expect_tensors(MAX_TENSORS, "inputs")
    with pytest.raises(
        InvalidRequest, match=f"^{MAX_TENSORS + 1} outputs are more than the {MAX_TENSORS} allowed"
    ):
        expect_tensors(MAX_TENSORS + 1, "outputs")

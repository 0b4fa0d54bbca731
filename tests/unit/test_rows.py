"""What model code says of the rows that failed."""

import numpy as np
import pytest

import inferstream
from inferstream.errors import ModelError
from inferstream.rows import RowErrors


def test_single_caller_receives_the_first_row_error() -> None:
    error = inferstream.RowErrors({np.int64(3): "later", 1: ModelError("first", 418)}, None)
    assert (error.message, error.status_code) == ("first", 418)
    assert isinstance(error, ModelError)
    assert list(error.errors) == [1, 3]


def test_failed_rows_are_found_by_range() -> None:
    error = RowErrors({1: "one", 3: "three"}, None)
    found = [error.within(*rows) for rows in ((0, 1), (0, 2), (2, 3), (1, 9))]
    assert [each and each.message for each in found] == [None, "one", None, "one"]


@pytest.mark.parametrize("errors", [{}, {-1: "before the first"}])
def test_row_errors_without_rows_are_refused(errors: dict) -> None:
    with pytest.raises(ValueError, match="one row or more"):
        RowErrors(errors, None)

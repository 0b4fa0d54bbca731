"""Details of `HTTPException` that are not text."""

import json

import numpy as np
import pytest
from fastapi import HTTPException

from inferstream.functions.http_errors import from_http_exception


@pytest.mark.parametrize(
    ("detail", "said"),
    [
        (
            {"id": np.int64(5), "score": np.float32(0.5), "rows": np.arange(2)},
            {"id": 5, "score": 0.5, "rows": [0, 1]},
        ),
        ([b"a"], ["b'a'"]),
        ([1j], ["1j"]),
    ],
)
def test_error_detail_keeps_its_numbers(detail: object, said: object) -> None:
    refused = from_http_exception(HTTPException(422, detail))
    assert refused is not None
    assert json.loads(refused.message) == said

"""Arrays as JSON objects."""

import numpy as np
import pytest

from inferstream.ext.hosting import install_aliases

install_aliases()

from blazerpc import (
    SerializationError,
)
from blazerpc.runtime.json_serialization import (  # type: ignore[import-not-found]
    is_tensor_json,
    tensor_from_json,
    tensor_to_json,
)


def test_arrays_as_json_objects() -> None:
    array = np.arange(4, dtype=np.float32).reshape(2, 2)
    written = tensor_to_json(array)
    assert is_tensor_json(written)
    assert tensor_from_json(written).tolist() == array.tolist()
    with pytest.raises(SerializationError, match="unknown dtype"):
        tensor_from_json({**written, "dtype": "x"})

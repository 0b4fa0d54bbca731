"""What the server collects of a stream for one whole response has a bound, and takes no more than its bytes."""

import numpy as np
import pytest

from inferstream.dataplane.gathering import ITEM_BYTES, GatherLimit
from inferstream.errors import PayloadTooLarge
from inferstream.types import InferenceResponse, ResponseOutput, TensorData


@pytest.mark.parametrize(
    ("data", "datatype", "size"),
    [
        (TensorData(np.zeros(100)), "FP64", 800),
        (TensorData.from_raw(bytes(40), "INT32"), "INT32", 40),
        (TensorData(["abc", b"de"]), "BYTES", 5),
        (TensorData([1, 2]), "INT64", 2 * ITEM_BYTES),
    ],
)
def test_each_tensor_representation_is_counted(data: TensorData, datatype: str, size: int) -> None:
    response = InferenceResponse.of("m", [ResponseOutput.of("y", [1], datatype, data)])
    GatherLimit(size + ITEM_BYTES).take_response(response)
    with pytest.raises(PayloadTooLarge):
        GatherLimit(size + ITEM_BYTES - 1).take_response(response)

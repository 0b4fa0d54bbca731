"""Arrays of every memory layout have the same bytes on the wire as a contiguous copy."""

import numpy as np
import numpy.typing as npt
import orjson
import pytest

from inferstream.dataplane.workers.packing import pack_response, unpack_response
from inferstream.protos.dataplane_pb2 import ModelInferResponse
from inferstream.protos.grpc_responses import WholeMessages
from inferstream.protos.json_responses import IN_JSON, JsonWriter
from inferstream.types import InferenceResponse, ResponseOutput, TensorData
from inferstream.types.datatypes import DTYPES

NUMBERS = [name for name in DTYPES if name not in ("BF16", "BYTES")]


def read_only(array: npt.NDArray) -> npt.NDArray:
    array.flags.writeable = False
    return array


LAYOUTS = {
    "column": lambda a: a[:, 1],
    "every second": lambda a: a[:, 0][::2],
    "reversed": lambda a: a[::-1, ::-1],
    "Fortran": np.asfortranarray,
    "transposed": lambda a: a.T,
    "big-endian": lambda a: a.astype(a.dtype.newbyteorder(">")),
    "read-only": lambda a: read_only(a.copy()),
    "broadcast": lambda a: np.broadcast_to(a[0], (3, a.shape[1])),
    "no dimension": lambda a: a[1, 2],
    "0-d": lambda a: np.array(a[1, 2]),
    "empty": lambda a: a[:0],
    "matrix": lambda a: a.view(np.matrix),
    "unmasked": lambda a: np.ma.masked_array(a),
}


def response_of(array: npt.NDArray, datatype: str) -> InferenceResponse:
    output = ResponseOutput(name="x", shape=[*np.shape(array)], datatype=datatype, data=array)
    return InferenceResponse(model_name="m", outputs=[output])


def no_memory(start: int, size: int) -> memoryview:
    raise AssertionError("small tensors are in the frame")


def values_of(message: bytes, datatype: str) -> npt.NDArray:
    parsed = ModelInferResponse.FromString(message)
    if parsed.raw_output_contents:
        return np.frombuffer(parsed.raw_output_contents[0], DTYPES[datatype])
    contents = parsed.outputs[0].contents
    return np.array([*next(value for _, value in contents.ListFields())] if contents.ListFields() else [])


@pytest.mark.parametrize("datatype", NUMBERS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_memory_layout_does_not_matter(layout: str, datatype: str) -> None:
    base = (np.arange(12).reshape(3, 4) % 2 if datatype == "BOOL" else np.arange(12).reshape(3, 4)).astype(
        DTYPES[datatype]
    )
    array = LAYOUTS[layout](base)
    wanted = np.array(array).reshape(-1).astype(DTYPES[datatype]).tolist()

    written, _ = IN_JSON.tensors(response_of(array, datatype))
    assert orjson.loads(written)["outputs"][0]["data"] == wanted
    _, [raw] = JsonWriter((True, {})).tensors(response_of(array, datatype))
    assert np.frombuffer(raw, DTYPES[datatype]).tolist() == wanted
    for typed in (False, True):
        message = WholeMessages(typed).tensors(response_of(array, datatype))
        assert values_of(message, datatype).tolist() == wanted
    received = unpack_response(pack_response(response_of(array, datatype), lambda data: None), no_memory)
    assert received.outputs[0].data.to_numpy(datatype).tolist() == wanted


def test_masked_values_become_missing() -> None:
    masked = np.ma.masked_array([1.0, 2.0], [False, True])
    written, _ = IN_JSON.tensors(response_of(masked, "FP64"))
    assert orjson.loads(written)["outputs"][0]["data"] == [1.0, None]
    integers = TensorData(np.ma.masked_array([1, 2], [False, True]))
    assert integers.root == [1, None]
    with pytest.raises(ValueError, match="needs an integer, got null"):
        integers.to_numpy("INT64")

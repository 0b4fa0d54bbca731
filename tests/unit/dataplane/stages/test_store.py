"""What the response cache keeps of a response: all a client sees, and nothing that anybody may change."""

import numpy as np
import pytest

from inferstream.dataplane.call import identify
from inferstream.dataplane.stages.store import Snapshot
from inferstream.types import (
    Headers,
    InferenceRequest,
    InferenceResponse,
    Parameters,
    ResponseOutput,
    TensorData,
)
from inferstream.types.conversion import join_bytes
from inferstream.types.datatypes import DTYPES


def answer(data: object, datatype: str, **given) -> InferenceResponse:
    output = ResponseOutput(name="y", shape=[2], datatype=datatype, data=data)
    return InferenceResponse(model_name="m", model_version="1", id="first", outputs=[output], **given)


@pytest.mark.parametrize("datatype", [*DTYPES, "BYTES"])
@pytest.mark.parametrize("form", ["list", "raw", "array"])
def test_stored_values_keep_content_and_form(datatype: str, form: str) -> None:
    values = [b"a", "ü"] if datatype == "BYTES" else [1, 0]
    data = TensorData(values)
    if form == "raw":
        data = TensorData.from_raw(bytearray(data.to_raw(datatype)), datatype)
    elif form == "array" and datatype != "BYTES":
        data = TensorData(data.to_numpy(datatype).copy())
    before, raw, array = bytes(data.to_raw(datatype)), data.is_raw, data.array is not None
    snapshot = Snapshot(answer(data, datatype))
    spoil(data, values)
    for request_id in ("one", "two"):
        found = snapshot.response(request_id)
        tensor = found.outputs[0]
        assert (found.id, found.model_name, found.model_version) == (request_id, "m", "1")
        assert (tensor.name, tensor.shape, tensor.datatype) == ("y", [2], datatype)
        assert tensor.data.is_raw == raw
        assert (tensor.data.array is not None) == (array and datatype != "BYTES" and form == "array")
        assert bytes(tensor.data.to_raw(datatype)) == before


def spoil(data: TensorData, values: list) -> None:
    """What a model may do that keeps what it answers, and answers from there again."""
    values.clear()
    if data.array is not None and data.array.flags.writeable:
        data.array[...] = 0
    if data.is_raw:
        raw = data._raw
        assert raw is not None
        raw[-1] ^= 1


def test_parameters_are_copied_without_request_headers() -> None:
    free = {"scores": [1, 2]}
    echoed = Parameters(content_type="np", **free)
    identify(InferenceRequest(inputs=[], parameters=echoed), Headers([("authorization", "secret")]))
    assert echoed.headers is not None
    snapshot = Snapshot(answer([1, 2], "INT8", parameters=echoed))
    free["scores"].append(3)
    found = snapshot.response("i").parameters
    assert (found.content_type, found.headers, found.get("scores")) == ("np", None, [1, 2])

    own = Snapshot(answer([1, 2], "INT8", parameters=Parameters(headers={"x-model": "yes"})))
    assert own.response("i").parameters.headers == {"x-model": "yes"}


def test_size_grows_with_content() -> None:
    sizes = [
        Snapshot(answer(np.zeros(count, np.float32), "FP32")).size
        - Snapshot(answer(np.zeros(0, np.float32), "FP32")).size
        for count in (1, 1000)
    ]
    assert sizes == [4, 4000]
    assert Snapshot(answer(["x" * 1000, None], "BYTES")).size > 1000


@pytest.mark.parametrize(
    "data", [np.array(["a", "b"]), np.array([1, None], object), None, [memoryview(b"a")], {"a": [1]}]
)
def test_unchecked_data_of_any_kind_is_stored(data: object) -> None:
    response = answer([1, 2], "FP32")
    response.outputs[0].data = TensorData(data, checked=False)
    found = Snapshot(response).response("i").outputs[0].data
    assert repr(found.peek()) == repr(TensorData(data, checked=False).peek()) or isinstance(data, list)


@pytest.mark.parametrize("binary", [False, True])
def test_bytes_stay_bytes(binary: bool) -> None:
    raw = join_bytes([b"a", b"b"])
    for data in (TensorData([b"a", b"b"], binary=binary), TensorData.from_raw(raw, "BYTES", binary)):
        found = Snapshot(answer(data, "BYTES")).response("two").outputs[0].data
        assert found.binary is binary
        assert found.flat() == [b"a", b"b"]

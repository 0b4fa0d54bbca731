"""Whatever goes to a worker or comes back is the same on the other side."""

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from inferstream.dataplane.workers import packing
from inferstream.dataplane.workers.frames import PackedRequest, PackedResponse
from inferstream.errors import (
    Code,
    DeadlineExceeded,
    InferenceFailed,
    InvalidRequest,
    ModelError,
    Overloaded,
)
from inferstream.processes.frames import UNENCODABLE, Failure, encode_foreign, pack_failure, unpack_failure
from inferstream.types import (
    Headers,
    InferenceRequest,
    InferenceResponse,
    Parameters,
    RequestInput,
    RequestOutput,
    ResponseOutput,
    TensorData,
)
from inferstream.types.conversion import join_bytes
from inferstream.types.datatypes import DTYPES

ENCODER = msgspec.msgpack.Encoder(enc_hook=encode_foreign)


class Memory:
    """Stands for shared memory."""

    def __init__(self) -> None:
        self.pieces: list[bytearray] = []

    def put(self, data: bytes | memoryview) -> int:
        self.pieces.append(bytearray(data))
        return len(self.pieces) - 1

    def free(self, places: list[int]) -> None:
        for place in places:
            self.pieces[place] = bytearray()

    def view(self, place: int, length: int) -> memoryview:
        assert len(self.pieces[place]) == length
        return memoryview(self.pieces[place])


class FullMemory(Memory):
    def put(self, data: bytes | memoryview) -> None:
        return None


def there(request: InferenceRequest, kind: type[Memory] = Memory) -> InferenceRequest:
    memory = kind()
    frame = packing.pack_request(request, memory)
    decoded = msgspec.msgpack.decode(ENCODER.encode(frame), type=PackedRequest)
    return packing.unpack_request(decoded, memory.view)


def back(response: InferenceResponse) -> InferenceResponse:
    memory = Memory()
    frame = packing.pack_response(response, memory.put)
    decoded = msgspec.msgpack.decode(ENCODER.encode(frame), type=PackedResponse)
    return packing.unpack_response(decoded, memory.view)


def request(**tensor) -> InferenceRequest:
    return InferenceRequest(id="r", inputs=[RequestInput(**{"name": "x", **tensor})])


class Lost(TensorData):
    """Values that can no longer be read."""

    def source(self, datatype: str) -> bytes:
        raise InvalidRequest("gone")


def test_tensors_before_an_unreadable_one_are_released() -> None:
    memory = Memory()
    large = RequestInput(name="x", shape=[5000], datatype="FP32", data=np.ones(5000, np.float32))
    lost = RequestInput(name="y", shape=[1], datatype="FP32", data=Lost(np.ones(1, np.float32)))
    with pytest.raises(InvalidRequest, match="gone"):
        packing.pack_request(InferenceRequest(inputs=[large, lost]), memory)
    assert memory.pieces == [b""]


@pytest.mark.parametrize(
    ("datatype", "data"),
    [
        ("FP32", [0.1, 2, None, math.inf]),
        ("FP64", [[1.5, 2.5], [3.5, 4.5]]),
        ("INT64", [2**63 - 1, -(2**63)]),
        ("UINT64", [2**64 - 1]),
        ("BOOL", [True, False]),
        ("BYTES", ["ü", b"\xff\x00", None]),
        ("BYTES", []),
    ],
)
def test_python_values_are_unchanged(datatype: str, data: list) -> None:
    given = request(shape=[len(data)], datatype=datatype, data=data)
    assert there(given).inputs[0].data.root == data
    assert there(given) == given


@given(hnp.arrays(hnp.scalar_dtypes().filter(lambda dtype: dtype in DTYPES.values()), hnp.array_shapes()))
def test_arrays_of_every_datatype_round_trip(array: np.ndarray) -> None:
    datatype = next(name for name, dtype in DTYPES.items() if dtype == array.dtype and name != "BF16")
    output = ResponseOutput(name="y", shape=list(array.shape), datatype=datatype, data=array)
    found = back(InferenceResponse(model_name="m", outputs=[output])).outputs[0]
    assert found.shape == list(array.shape)
    np.testing.assert_array_equal(found.data.to_numpy(datatype, found.shape), array)


@pytest.mark.parametrize("count", [10, packing.FEW + 1, 100_000])
def test_list_becomes_writable_array(count: int) -> None:
    given = request(shape=[count], datatype="FP32", data=[0.5] * count)
    array = there(given).inputs[0].data.to_numpy("FP32")
    array += 1
    assert array.sum() == 1.5 * count


@pytest.mark.parametrize(("checked", "binary"), [(True, False), (True, True), (False, False)])
@pytest.mark.parametrize("size", [4, packing.INLINE])
def test_data_keeps_its_kind(checked: bool, binary: bool, size: int) -> None:
    raw = join_bytes([b"a" * size])
    for data in (TensorData([b"a" * size], binary=binary), TensorData.from_raw(raw, "BYTES", binary)):
        data.checked = checked
        output = ResponseOutput(name="y", shape=[1], datatype="BYTES", data=data)
        found = back(InferenceResponse(model_name="m", outputs=[output])).outputs[0].data
        assert (found.checked, found.binary) == (checked, binary)
        assert found.flat() == [b"a" * size]


@pytest.mark.parametrize("size", [16, packing.INLINE + 4])
def test_raw_bytes_are_unchanged(size: int) -> None:
    data = TensorData.from_raw(bytes(size), "FP32")
    found = there(request(shape=[size // 4], datatype="FP32", data=data)).inputs[0].data
    assert found.is_raw
    assert bytes(found.to_raw("FP32")) == bytes(size)


def test_tensor_is_inlined_if_shared_memory_is_full() -> None:
    given = request(shape=[100_000], datatype="FP32", data=np.ones(100_000, np.float32))
    found = there(given, FullMemory)
    assert found.inputs[0].data.to_numpy("FP32").sum() == 100_000


def test_request_metadata_round_trips() -> None:
    headers = Headers([(b"X-Custom", b"yes"), (b"Accept", b"*/*")])
    given = InferenceRequest(
        id="r",
        parameters=Parameters(content_type="np", headers=headers, priority=3, flag=True, text="t"),
        inputs=[
            RequestInput(
                name="x", shape=[1], datatype="INT8", data=[1], parameters=Parameters(content_type="str")
            )
        ],
        outputs=[RequestOutput(name="y", parameters=Parameters(binary_data=False)), RequestOutput(name="z")],
    )
    found = there(given)
    assert found == given
    assert found.parameters.headers["x-custom"] == "yes"
    assert found.model_dump() == given.model_dump()
    bare = request(shape=[1], datatype="INT8", data=[1])
    bare.parameters = None
    assert there(bare).parameters is None


def test_response_headers_and_numpy_numbers_round_trip() -> None:
    parameters = Parameters(headers={"x-a": "b"}, score=np.float32(0.5), count=np.int64(3))
    found = back(InferenceResponse(model_name="m", parameters=parameters, outputs=[]))
    assert found.parameters.headers == {"x-a": "b"}
    assert (found.parameters.get("score"), found.parameters.get("count")) == (0.5, 3)


@pytest.mark.parametrize("value", [object(), 2**70, "\ud800"])
def test_process_local_values_are_refused(value: object) -> None:
    with pytest.raises(UNENCODABLE):
        back(InferenceResponse(model_name="m", parameters=Parameters(thing=value), outputs=[]))


@given(st.integers(200, 599), st.text())
def test_model_error_keeps_its_status(status: int, message: str) -> None:
    found = unpack_failure(pack_failure(ModelError(message, status)))
    assert isinstance(found, ModelError)
    assert (found.message, found.status_code) == (message, status)


def test_every_error_keeps_its_kind_and_message() -> None:
    for error in (
        InvalidRequest("bad", [{"loc": ["x"]}]),
        Overloaded("full", 7),
        DeadlineExceeded(),
        InferenceFailed("no"),
    ):
        packed = msgspec.msgpack.decode(msgspec.msgpack.encode(pack_failure(error)), type=Failure)
        found = unpack_failure(packed)
        assert (found.code, found.message) == (error.code, error.message)
        assert getattr(found, "retry_after", None) == getattr(error, "retry_after", None)
        assert getattr(found, "detail", None) == getattr(error, "detail", None)
    assert unpack_failure(Failure(Code.NOT_FOUND.value, "gone")).code is Code.NOT_FOUND

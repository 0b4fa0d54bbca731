"""Tensors in regions of shared memory: what may be read and written, and when it is."""

import errno
import os
from pathlib import Path

import pytest

from inferstream import Settings
from inferstream.errors import InvalidRequest, Unsupported
from inferstream.ext.calls import Call, Operation, Reply
from inferstream.ext.values import check_input
from inferstream.plugins.triton.region_parameters import REGION
from inferstream.plugins.triton.region_use import RegionUse, build_region_handler
from inferstream.plugins.triton.regions import FOLDER, Regions
from inferstream.types import (
    InferenceRequest,
    InferenceResponse,
    Parameters,
    RequestInput,
    RequestOutput,
    ResponseOutput,
)
from tests.plugins.triton.shared_regions import SKIP, VALUES, asking, caller, content, parameters, regions

pytestmark = SKIP


async def test_inputs_are_read_and_parameters_removed(key: str) -> None:
    known = regions()
    await known.register("r", key, 0, 64, caller())
    request = asking(size=16)
    await RegionUse.of(known, request, "")
    assert request.inputs[0].data.to_numpy("FP32").tolist() == VALUES.tolist()
    assert not dict(request.inputs[0].parameters.items())


async def given(key: str, datatype: str, shape: list[int], content: bytes) -> RequestInput:
    """An input in a region that has this content."""
    Path(f"{FOLDER}{key}").write_bytes(content)
    known = regions()
    await known.register("r", key, 0, len(content), caller())
    at = parameters(size=len(content))
    tensor = RequestInput(name="x", shape=shape, datatype=datatype, data=[], parameters=at)
    await RegionUse.of(known, InferenceRequest(inputs=[tensor]), "")
    return tensor


async def test_numbers_are_validated_without_reading(key: str) -> None:
    tensor = await given(key, "FP32", [4], VALUES.tobytes())
    check_input(tensor)
    os.truncate(f"{FOLDER}{key}", 8)
    assert tensor.data.is_raw
    with pytest.raises(InvalidRequest, match="shorter than it was"):
        tensor.data.to_numpy("FP32")


@pytest.mark.parametrize("checked", [True, False])
async def test_wrong_byte_count_is_refused_without_reading(key: str, checked: bool) -> None:
    tensor = await given(key, "FP32", [4], b"." * 15)
    os.truncate(f"{FOLDER}{key}", 8)
    tensor.data.checked = checked
    said = (
        "shape \\[4\\] needs 16 bytes of FP32, got 15" if checked else "15 bytes are no whole number of FP32"
    )
    with pytest.raises(InvalidRequest, match=said):
        check_input(tensor)


@pytest.mark.parametrize(
    ("datatype", "shape", "content", "said"),
    [
        ("BOOL", [4], b"\1\0\2\1", 'input "x": BOOL needs bytes that are 0 or 1'),
        ("BYTES", [1], b"\xff\0\0\0abc", 'input "x": '),
        ("BYTES", [2], b"\1\0\0\0a", 'input "x": shape \\[2\\] needs 2 values, got 1'),
    ],
)
async def test_strings_and_booleans_are_validated(
    key: str, datatype: str, shape: list[int], content: bytes, said: str
) -> None:
    tensor = await given(key, datatype, shape, content)
    check_input(tensor)
    with pytest.raises(InvalidRequest, match=said):
        tensor.data.source(datatype)


async def test_data_for_worker_is_copied_once(key: str) -> None:
    tensor = await given(key, "FP32", [4], VALUES.tobytes())
    check_input(tensor)
    source = tensor.data.source("FP32")
    assert not isinstance(source, bytes | memoryview)
    memory = bytearray(len(source))
    source.read_into(memoryview(memory))
    assert memory == VALUES.tobytes()


async def test_model_can_replace_input_values(key: str) -> None:
    tensor = await given(key, "FP32", [4], VALUES.tobytes())
    assert tensor.data.root == VALUES.tolist()
    assert not tensor.data.is_raw
    tensor.data.root = [1.0]
    assert tensor.data.to_numpy("FP32").tolist() == [1.0]


async def test_region_can_have_offset(key: str) -> None:
    known = regions()
    await known.register("r", key.removeprefix("/"), 4, 12, caller())
    request = asking(size=8, offset=4)
    await RegionUse.of(known, request, "")
    assert request.inputs[0].data.to_numpy("FP32").tolist() == [2.0, 3.0]


async def test_outputs_are_written_without_values(key: str) -> None:
    known = regions()
    await known.register("r", key, 0, 64, caller())
    wanted = [RequestOutput(name="y", parameters=parameters(size=20, offset=32)), RequestOutput(name="z")]
    use = await RegionUse.of(known, asking(wanted), "")
    said = Parameters(content_type="str", unit="cm")
    y = ResponseOutput(name="y", shape=[2], datatype="BYTES", data=["ab", "c"], parameters=said)
    z = ResponseOutput(name="z", shape=[1], datatype="INT64", data=[7])
    stored = await use.store(InferenceResponse(model_name="m", outputs=[y, z]))
    assert dict(stored.outputs[0].parameters.items()) == {
        "content_type": "str",
        "unit": "cm",
        "shared_memory_region": "r",
        "shared_memory_byte_size": 11,
        "shared_memory_offset": 32,
    }
    assert stored.outputs[1].data.flat() == [7]
    assert content(key)[32:43] == b"\2\0\0\0ab\1\0\0\0c"


async def test_oversized_output_is_not_written(key: str) -> None:
    known = regions()
    await known.register("r", key, 0, 64, caller())
    use = await RegionUse.of(known, asking([RequestOutput(name="y", parameters=parameters(8))]), "")
    y = ResponseOutput(name="y", shape=[3], datatype="FP32", data=[9.0, 9.0, 9.0])
    with pytest.raises(InvalidRequest, match='output "y" has 12 bytes, and its place in the region 8'):
        await use.store(InferenceResponse(model_name="m", outputs=[y]))
    assert content(key)[:16] == VALUES.tobytes()


@pytest.mark.parametrize(
    "place",
    [
        {"size": 65},
        {"size": 8, "offset": 57},
        {"size": 2**63 - 1, "offset": 2**63 - 1},
        {"size": -1},
        {"size": None},
        {"size": 8, "offset": -4},
        {"size": "8"},
        {"name": "other"},
        {"name": 7},
    ],
)
async def test_tensor_stays_within_region(key: str, place: dict[str, object]) -> None:
    known = regions()
    await known.register("r", key, 0, 64, caller())
    with pytest.raises(InvalidRequest):
        await RegionUse.of(known, asking(**place), "")


async def test_truncated_memory_is_an_error(key: str) -> None:
    known = regions()
    await known.register("r", key, 0, 64, caller())
    wanted = [RequestOutput(name="y", parameters=parameters(16, 32))]
    use = await RegionUse.of(known, asking(wanted), "")
    os.truncate(f"{FOLDER}{key}", 8)
    request = asking(size=16)
    await RegionUse.of(known, request, "")
    with pytest.raises(InvalidRequest, match="shorter than it was"):
        request.inputs[0].data.to_numpy("FP32")
    y = ResponseOutput(name="y", shape=[4], datatype="FP32", data=VALUES)
    with pytest.raises(InvalidRequest, match="shorter than it was"):
        await use.store(InferenceResponse(model_name="m", outputs=[y]))


async def test_unavailable_memory_is_an_error_without_signal(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = regions()
    await known.register("r", key, 0, 64, caller())
    use = await RegionUse.of(known, asking([RequestOutput(name="y", parameters=parameters(16))]), "")

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device", f"{FOLDER}{key}")

    monkeypatch.setattr(os, "pwrite", full)
    y = ResponseOutput(name="y", shape=[4], datatype="FP32", data=VALUES)
    with pytest.raises(InvalidRequest, match="of its region cannot be written") as wrong:
        await use.store(InferenceResponse(model_name="m", outputs=[y]))
    assert key not in wrong.value.message


async def test_running_call_keeps_region(key: str) -> None:
    known = regions()
    await known.register("r", key, 0, 64, caller())
    use = await RegionUse.of(known, asking([RequestOutput(name="y", parameters=parameters(16, 32))]), "")
    await known.unregister("", caller())
    assert await known.status("", caller()) == []
    y = ResponseOutput(name="y", shape=[4], datatype="FP32", data=VALUES)
    await use.store(InferenceResponse(model_name="m", outputs=[y]))
    assert content(key)[32:48] == VALUES.tobytes()


class Shared:
    """What the models of a server share."""

    settings = Settings()

    def __init__(self, known: Regions | None) -> None:
        self._known = known

    def of(self, make: object) -> Regions | None:
        return self._known


def call_of(request: InferenceRequest) -> Call:
    return Call(Operation.INFER, "m", None, request, {})


async def doubled(call: Call) -> Reply:
    """A model that writes into its input."""
    array = call.request.inputs[0].data.to_numpy("FP32")
    array *= 2
    return Reply(
        InferenceResponse(
            model_name="m", outputs=[ResponseOutput(name="y", shape=[4], datatype="FP32", data=array)]
        )
    )


async def test_stage_reads_inputs_and_writes_outputs(key: str) -> None:
    known = regions()
    await known.register("r", key, 0, 64, caller())
    request = asking([RequestOutput(name="y", parameters=parameters(16, 32))], size=16)
    request.references = ("path", REGION)
    reply = await build_region_handler(doubled, Shared(known))(call_of(request))
    assert request.references == ("path",)
    assert content(key)[:16] == VALUES.tobytes()
    assert content(key)[32:48] == (2 * VALUES).tobytes()
    assert reply.first.outputs[0].parameters.get("shared_memory_region") == "r"


async def test_stage_ignores_other_calls(key: str) -> None:
    def inner(call: Call) -> str:
        return "reply"

    assert build_region_handler(inner, Shared(None))(call_of(asking())) == "reply"


async def test_stage_refuses_regions_if_disabled() -> None:
    request = asking(size=16)
    request.references = ("path", REGION)
    with pytest.raises(Unsupported, match="by the setting shared_memory"):
        await build_region_handler(doubled, Shared(None))(call_of(request))

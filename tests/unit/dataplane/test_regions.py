"""Regions of shared memory: what may be opened, and what of it may be read."""

import asyncio
import errno
import gc
import os
import uuid
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from inferstream.dataplane.caller import Caller
from inferstream.dataplane.checks import check_input
from inferstream.dataplane.peers import ListRegions, Peers
from inferstream.dataplane.regions import FOLDER, MOST, Regions, RegionUse, shares_memory
from inferstream.errors import AlreadyExists, InvalidRequest, NotFound, PayloadTooLarge
from inferstream.processes.frames import Query
from inferstream.settings import Settings
from inferstream.types import (
    Headers,
    InferenceRequest,
    InferenceResponse,
    Parameters,
    RequestInput,
    RequestOutput,
    ResponseOutput,
)

pytestmark = pytest.mark.skipif(not os.path.isdir(FOLDER), reason="this system has no /dev/shm")

VALUES = np.arange(4, dtype=np.float32)


@pytest.fixture
def key() -> Iterator[str]:
    name = f"tests-{uuid.uuid4().hex}"
    with open(f"{FOLDER}/{name}", "wb") as file:
        file.write(VALUES.tobytes() + bytes(48))
    yield f"/{name}"
    os.unlink(f"{FOLDER}/{name}")


def regions(peers: Peers | None = None, **settings: object) -> Regions:
    return Regions(Settings(**settings), peers or Peers())


def content(key: str) -> bytes:
    return Path(f"{FOLDER}{key}").read_bytes()


def caller(principal: str | None = None) -> Caller:
    made = Caller(Headers([]), "rest")
    made.principal = principal
    return made


def parameters(size: object = 16, offset: object = 0, name: object = "r") -> Parameters:
    return Parameters(shared_memory_region=name, shared_memory_byte_size=size, shared_memory_offset=offset)


def asking(outputs: list[RequestOutput] | None = None, **place: object) -> InferenceRequest:
    tensor = RequestInput(
        name="x", shape=[4], datatype="FP32", data=[], parameters=parameters(**place) if place else None
    )
    return InferenceRequest(inputs=[tensor], outputs=outputs)


async def test_inputs_are_read_and_lose_their_parameters(key: str) -> None:
    known = regions()
    await known.register("r", key, 0, 64, caller())
    request = asking(size=16)
    await RegionUse.of(known, request, caller())
    assert request.inputs[0].data.to_numpy("FP32").tolist() == VALUES.tolist()
    assert not dict(request.inputs[0].parameters.items())


async def given(key: str, datatype: str, shape: list[int], content: bytes) -> RequestInput:
    """An input in a region that has this content."""
    Path(f"{FOLDER}{key}").write_bytes(content)
    known = regions()
    await known.register("r", key, 0, len(content), caller())
    at = parameters(size=len(content))
    tensor = RequestInput(name="x", shape=shape, datatype=datatype, data=[], parameters=at)
    await RegionUse.of(known, InferenceRequest(inputs=[tensor]), caller())
    return tensor


async def test_numbers_are_checked_unread(key: str) -> None:
    tensor = await given(key, "FP32", [4], VALUES.tobytes())
    check_input(tensor)
    os.truncate(f"{FOLDER}{key}", 8)
    assert tensor.data.is_raw
    with pytest.raises(InvalidRequest, match="shorter than it was"):
        tensor.data.to_numpy("FP32")


@pytest.mark.parametrize("checked", [True, False])
async def test_a_wrong_number_of_bytes_is_refused_unread(key: str, checked: bool) -> None:
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
async def test_texts_and_booleans_are_checked_when_they_are_read(
    key: str, datatype: str, shape: list[int], content: bytes, said: str
) -> None:
    tensor = await given(key, datatype, shape, content)
    check_input(tensor)
    with pytest.raises(InvalidRequest, match=said):
        tensor.data.source(datatype)


async def test_what_goes_to_a_worker_is_copied_once(key: str) -> None:
    tensor = await given(key, "FP32", [4], VALUES.tobytes())
    check_input(tensor)
    source = tensor.data.source("FP32")
    assert not isinstance(source, bytes | memoryview)
    memory = bytearray(len(source))
    source.read_into(memoryview(memory))
    assert memory == VALUES.tobytes()


async def test_a_model_may_set_the_values_of_an_input(key: str) -> None:
    tensor = await given(key, "FP32", [4], VALUES.tobytes())
    assert tensor.data.root == VALUES.tolist()
    assert not tensor.data.is_raw
    tensor.data.root = [1.0]
    assert tensor.data.to_numpy("FP32").tolist() == [1.0]


async def test_a_region_may_begin_behind_the_start(key: str) -> None:
    known = regions()
    await known.register("r", key.removeprefix("/"), 4, 12, caller())
    request = asking(size=8, offset=4)
    await RegionUse.of(known, request, caller())
    assert request.inputs[0].data.to_numpy("FP32").tolist() == [2.0, 3.0]


async def test_outputs_are_written_and_have_no_values(key: str) -> None:
    known = regions()
    await known.register("r", key, 0, 64, caller())
    wanted = [RequestOutput(name="y", parameters=parameters(size=20, offset=32)), RequestOutput(name="z")]
    use = await RegionUse.of(known, asking(wanted), caller())
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


async def test_an_output_that_does_not_fit_is_written_nowhere(key: str) -> None:
    known = regions()
    await known.register("r", key, 0, 64, caller())
    use = await RegionUse.of(known, asking([RequestOutput(name="y", parameters=parameters(8))]), caller())
    y = ResponseOutput(name="y", shape=[3], datatype="FP32", data=[9.0, 9.0, 9.0])
    with pytest.raises(InvalidRequest, match='output "y" has 12 bytes, and its place in the region 8'):
        await use.store(InferenceResponse(model_name="m", outputs=[y]))
    assert content(key)[:16] == VALUES.tobytes()


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("", "must be the name of shared memory"),
        (None, "must be the name of shared memory"),
        ("/", "must be the name of shared memory"),
        ("..", "must be the name of shared memory"),
        ("/../etc/passwd", "must be the name of shared memory"),
        ("/a/b", "must be the name of shared memory"),
        ("/a\0b", "must be the name of shared memory"),
        ("/" + "a" * 300, "must be the name of shared memory"),
        ("/there-is-none", "There is no shared memory of this key"),
    ],
)
async def test_a_key_is_a_name_in_one_folder(key: object, said: str) -> None:
    with pytest.raises(InvalidRequest) as wrong:
        await regions().register("r", key, 0, 8, caller())
    assert said in wrong.value.message
    assert FOLDER not in wrong.value.message


async def test_links_and_other_kinds_of_files_are_not_opened(key: str) -> None:
    link, pipe = f"{FOLDER}{key}-link", f"{FOLDER}{key}-pipe"
    os.symlink(f"{FOLDER}{key}", link)
    os.mkfifo(pipe)
    try:
        for name in ("link", "pipe"):
            with pytest.raises(InvalidRequest, match="shared memory"):
                await regions().register("r", f"{key}-{name}", 0, 8, caller())
    finally:
        os.unlink(link)
        os.unlink(pipe)


@pytest.mark.parametrize(
    ("offset", "size"),
    [(-1, 8), (0, -8), (0, 65), (60, 8), (2**63, 8), (0, 2**64), ("0", 8), (0, True), (0, None)],
)
async def test_a_region_stays_within_its_memory(key: str, offset: object, size: object) -> None:
    with pytest.raises(InvalidRequest):
        await regions().register("r", key, offset, size, caller())


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
async def test_a_tensor_stays_within_its_region(key: str, place: dict[str, object]) -> None:
    known = regions()
    await known.register("r", key, 0, 64, caller())
    with pytest.raises(InvalidRequest):
        await RegionUse.of(known, asking(**place), caller())


async def test_a_memory_that_became_shorter_is_an_error(key: str) -> None:
    known = regions()
    await known.register("r", key, 0, 64, caller())
    wanted = [RequestOutput(name="y", parameters=parameters(16, 32))]
    use = await RegionUse.of(known, asking(wanted), caller())
    os.truncate(f"{FOLDER}{key}", 8)
    request = asking(size=16)
    await RegionUse.of(known, request, caller())
    with pytest.raises(InvalidRequest, match="shorter than it was"):
        request.inputs[0].data.to_numpy("FP32")
    y = ResponseOutput(name="y", shape=[4], datatype="FP32", data=VALUES)
    with pytest.raises(InvalidRequest, match="shorter than it was"):
        await use.store(InferenceResponse(model_name="m", outputs=[y]))


async def test_memory_that_the_system_cannot_give_is_an_error_and_no_signal(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = regions()
    await known.register("r", key, 0, 64, caller())
    use = await RegionUse.of(known, asking([RequestOutput(name="y", parameters=parameters(16))]), caller())

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device", f"{FOLDER}{key}")

    monkeypatch.setattr(os, "pwrite", full)
    y = ResponseOutput(name="y", shape=[4], datatype="FP32", data=VALUES)
    with pytest.raises(InvalidRequest, match="of a region cannot be written") as wrong:
        await use.store(InferenceResponse(model_name="m", outputs=[y]))
    assert key not in wrong.value.message


async def test_a_call_in_progress_keeps_its_region(key: str) -> None:
    known = regions()
    await known.register("r", key, 0, 64, caller())
    use = await RegionUse.of(
        known, asking([RequestOutput(name="y", parameters=parameters(16, 32))]), caller()
    )
    await known.unregister("", caller())
    assert await known.status("", caller()) == []
    y = ResponseOutput(name="y", shape=[4], datatype="FP32", data=VALUES)
    await use.store(InferenceResponse(model_name="m", outputs=[y]))
    assert content(key)[32:48] == VALUES.tobytes()


async def test_files_are_closed_and_never_removed(key: str) -> None:
    gc.collect()  # what the errors of other tests hold
    before = len(os.listdir("/proc/self/fd"))
    known = regions()
    for number in range(20):
        await known.register(f"r{number}", key, 0, 64, caller())
    with pytest.raises(AlreadyExists):
        await known.register("r3", key, 0, 64, caller())
    await known.unregister("r3", caller())
    await known.unregister("nobody", caller())
    await known.unregister("", caller())
    assert len(os.listdir("/proc/self/fd")) == before
    assert os.path.exists(f"{FOLDER}{key}")


async def test_regions_of_one_principal_are_nobody_elses(key: str) -> None:
    known = regions()
    await known.register("r", key, 0, 64, caller("ann"))
    assert await known.status("", caller("bob")) == []
    with pytest.raises(NotFound):
        await known.status("r", caller("bob"))
    with pytest.raises(InvalidRequest, match="No region of this name"):
        await RegionUse.of(known, asking(size=8), caller("bob"))
    await known.unregister("", caller("bob"))
    assert [each["name"] for each in await known.status("r", caller("ann"))] == ["r"]


async def test_there_is_a_bound_of_regions_and_of_bytes(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inferstream.dataplane.regions.MOST", 2)
    known = regions(max_body_bytes=8)
    await known.register("r", key, 0, 64, caller())
    await known.register("s", key, 0, 64, caller())
    with pytest.raises(InvalidRequest, match="There are 2 regions already"):
        await known.register("t", key, 0, 64, caller())
    with pytest.raises(PayloadTooLarge, match="16 bytes are more than the 8 of max_body_bytes"):
        await RegionUse.of(known, asking(size=16), caller())
    assert MOST == 1024


class FrontEnds:
    """Three front ends. `held` waits before it passes an answer on."""

    def __init__(self) -> None:
        self.peers: list[Peers] = []
        self.held: Callable[[object], Awaitable[None]] | None = None
        for index in range(3):
            self.peers.append(Peers(index, 3, self._ask))
        self.regions = [regions(peers) for peers in self.peers]

    async def _ask(self, index: int, question: Query[object]) -> object:
        answer = await self.peers[index].answer(question)
        if self.held is not None:
            await self.held(question)
        return answer

    async def names(self) -> list[list[str]]:
        """What each front end itself has."""
        lists = [await peers.answer(ListRegions()) for peers in self.peers]
        return [[known.name for known in each] for each in lists]


async def test_every_front_end_has_the_regions(key: str) -> None:
    there = FrontEnds()
    await there.regions[1].register("r", key, 0, 64, caller())
    assert await there.names() == [["r"]] * 3
    there.regions[2] = regions(there.peers[2])  # as one that has started again
    assert [each["name"] for each in await there.regions[2].status("", caller())] == ["r"]
    there.regions[2] = regions(there.peers[2])
    await RegionUse.of(there.regions[2], asking(size=16), caller())
    await there.regions[1].unregister("r", caller())
    assert await there.names() == [[]] * 3


async def test_of_two_regions_of_one_name_one_is_refused(key: str) -> None:
    there = FrontEnds()
    both = [there.regions[index].register("r", key, 4 * index, 16, caller()) for index in (1, 2)]
    one, other = await asyncio.gather(*both, return_exceptions=True)
    assert one is None
    assert isinstance(other, AlreadyExists)
    assert [await each.status("r", caller()) for each in there.regions] == [
        [{"name": "r", "key": key, "offset": 4, "byte_size": 16}]
    ] * 3


async def test_a_region_does_not_come_back_while_others_are_looked_up(key: str) -> None:
    there = FrontEnds()
    await there.regions[0].register("r", key, 0, 64, caller())
    listed, go_on = asyncio.Event(), asyncio.Event()

    async def held(question: object) -> None:
        if isinstance(question, ListRegions):
            listed.set()
            await go_on.wait()

    there.held = held
    other = asyncio.create_task(there.regions[1].register("s", key, 0, 64, caller()))
    await listed.wait()
    await there.regions[2].unregister("r", caller())
    go_on.set()
    await other
    assert await there.names() == [["s"]] * 3


def test_only_a_server_of_this_machine_shares_memory_unless_it_is_told() -> None:
    assert shares_memory(Settings(host="127.0.0.1"))
    assert not shares_memory(Settings(host="127.0.0.1", shared_memory=False))
    assert not shares_memory(Settings(host="0.0.0.0"))
    assert shares_memory(Settings(host="0.0.0.0", shared_memory=True))

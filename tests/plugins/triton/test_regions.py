"""Regions of shared memory: what may be opened."""

import asyncio
import gc
import os
from collections.abc import Awaitable, Callable

import pytest

from inferstream import Settings
from inferstream.errors import AlreadyExists, InvalidRequest, NotFound, PayloadTooLarge
from inferstream.ext.calls import PeerQuestion, Peers
from inferstream.plugins.triton.region_use import RegionUse
from inferstream.plugins.triton.regions import FOLDER, MAX_REGIONS, ListRegions, shares_memory
from tests.plugins.triton.shared_regions import SKIP, asking, caller, regions

pytestmark = SKIP


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
async def test_key_is_a_name_in_one_folder(key: object, said: str) -> None:
    with pytest.raises(InvalidRequest) as wrong:
        await regions().register("r", key, 0, 8, caller())
    assert said in wrong.value.message
    assert FOLDER not in wrong.value.message


async def test_links_and_special_files_are_not_opened(key: str) -> None:
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
async def test_region_stays_within_memory(key: str, offset: object, size: object) -> None:
    with pytest.raises(InvalidRequest):
        await regions().register("r", key, offset, size, caller())


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


async def test_regions_are_private_to_principal(key: str) -> None:
    known = regions()
    await known.register("r", key, 0, 64, caller("ann"))
    assert await known.status("", caller("bob")) == []
    with pytest.raises(NotFound):
        await known.status("r", caller("bob"))
    with pytest.raises(InvalidRequest, match="no region of this name"):
        await RegionUse.of(known, asking(size=8), "bob")
    await known.unregister("", caller("bob"))
    assert [each["name"] for each in await known.status("r", caller("ann"))] == ["r"]


async def test_shared_memory_is_private_to_principal(key: str) -> None:
    there = FrontEnds()
    await there.regions[1].register("r", key, 0, 64, caller("ann"))
    await there.regions[1].register("again", key, 8, 8, caller("ann"))
    link = f"{FOLDER}{key}-same"
    os.link(f"{FOLDER}{key}", link)
    try:
        for each in there.regions:
            for name in (key, key.removeprefix("/"), f"{key}-same"):
                with pytest.raises(InvalidRequest, match="belongs to another principal"):
                    await each.register("r", name, 0, 8, caller("bob"))
                with pytest.raises(InvalidRequest, match="belongs to another principal"):
                    await each.register("r", name, 0, 8, caller("jwt:ann"))
    finally:
        os.unlink(link)
    await there.regions[0].unregister("", caller("ann"))
    await there.regions[2].register("r", key, 0, 8, caller("bob"))
    assert await there.names() == [["r"]] * 3


async def test_principal_has_share_of_regions(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inferstream.plugins.triton.regions.MAX_REGIONS_PER_CLIENT", 2)
    known = regions()
    for name in "rs":
        await known.register(name, key, 0, 64, caller("ann"))
    with pytest.raises(InvalidRequest, match="There are 2 regions of this principal already"):
        await known.register("t", key, 0, 64, caller("ann"))
    await known.unregister("r", caller("ann"))
    await known.register("t", key, 0, 64, caller("ann"))
    nobody = regions()
    for name in "rst":
        await nobody.register(name, key, 0, 64, caller())


async def test_regions_and_bytes_are_limited(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inferstream.plugins.triton.regions.MAX_REGIONS", 2)
    known = regions(max_body_bytes=8)
    await known.register("r", key, 0, 64, caller())
    await known.register("s", key, 0, 64, caller())
    with pytest.raises(InvalidRequest, match="There are 2 regions already"):
        await known.register("t", key, 0, 64, caller())
    with pytest.raises(PayloadTooLarge, match="16 bytes are more than the 8 of max_body_bytes"):
        await RegionUse.of(known, asking(size=16), "")
    assert MAX_REGIONS == 1024


class FrontEnds:
    """Three front ends. `held` waits before it passes an answer on."""

    def __init__(self) -> None:
        self.peers: list[Peers] = []
        self.held: Callable[[object], Awaitable[None]] | None = None
        for index in range(3):
            self.peers.append(Peers(index, 3, self._ask))
        self.regions = [regions(peers) for peers in self.peers]

    async def _ask(self, index: int, question: PeerQuestion[object]) -> object:
        answer = await self.peers[index].answer(question)
        if self.held is not None:
            await self.held(question)
        return answer

    async def names(self) -> list[list[str]]:
        """What each front end itself has."""
        lists = [await peers.answer(ListRegions()) for peers in self.peers]
        return [[known.name for known in each] for each in lists]


async def test_every_front_end_has_regions(key: str) -> None:
    there = FrontEnds()
    await there.regions[1].register("r", key, 0, 64, caller())
    assert await there.names() == [["r"]] * 3
    there.regions[2] = regions(there.peers[2])  # as one that has started again
    assert [each["name"] for each in await there.regions[2].status("", caller())] == ["r"]
    there.regions[2] = regions(there.peers[2])
    await RegionUse.of(there.regions[2], asking(size=16), "")
    await there.regions[1].unregister("r", caller())
    assert await there.names() == [[]] * 3


async def test_duplicate_region_is_refused(key: str) -> None:
    there = FrontEnds()
    both = [there.regions[index].register("r", key, 4 * index, 16, caller()) for index in (1, 2)]
    one, other = await asyncio.gather(*both, return_exceptions=True)
    assert one is None
    assert isinstance(other, AlreadyExists)
    assert [await each.status("r", caller()) for each in there.regions] == [
        [{"name": "r", "key": key, "offset": 4, "byte_size": 16}]
    ] * 3


async def test_removed_region_does_not_reappear_during_lookup(key: str) -> None:
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


def test_shared_memory_is_local_by_default() -> None:
    assert shares_memory(Settings(host="127.0.0.1"))
    assert not shares_memory(Settings(host="127.0.0.1", shared_memory=False))
    assert not shares_memory(Settings(host="0.0.0.0"))
    assert shares_memory(Settings(host="0.0.0.0", shared_memory=True))

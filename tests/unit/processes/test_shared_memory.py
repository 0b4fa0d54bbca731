"""Shared memory: what is put is seen, and a place is used again only when the last look at it is gone."""

import gc
import random

import numpy as np
import pytest

from inferstream.errors import InvalidRequest
from inferstream.processes import shared_memory


@pytest.fixture
def both():
    freed = []
    with shared_memory.create_memory() as descriptor:
        outgoing = shared_memory.Outgoing(descriptor)
        incoming = shared_memory.Incoming(descriptor, lambda: freed.append(1))
    return outgoing, incoming, freed


def test_stored_data_is_read_without_a_copy(both) -> None:
    outgoing, incoming, _ = both
    place = outgoing.put(b"hello")
    view = incoming.view(place, 5)
    assert bytes(view) == b"hello"
    view[0] = ord("j")
    assert bytes(incoming.view(place, 5)) == b"jello"


def test_block_is_freed_when_its_last_view_is_gone(both) -> None:
    outgoing, incoming, freed = both
    place = outgoing.put(np.arange(100, dtype="<f4").tobytes())
    view = incoming.view(place, 400)
    array = np.frombuffer(memoryview(view)[8:], "<f4").reshape(49, 2).T[1:]
    del view
    gc.collect()
    assert not freed
    assert array[0, 0] == 3.0
    del array
    gc.collect()
    assert freed
    assert incoming.take_free_blocks() == [place]
    assert incoming.take_free_blocks() == []


def test_full_arena_refuses_until_space_is_freed(both, monkeypatch) -> None:
    outgoing, _, _ = both
    half = b"." * (shared_memory.SIZE // 2)
    first = outgoing.put(half)
    assert first is not None
    assert outgoing.put(half) is None
    outgoing.free([first])
    assert outgoing.put(half) == first


class Elsewhere:
    """Bytes that are read when they are put; with `failure` that fails."""

    def __init__(self, data: bytes, failure: Exception | None = None) -> None:
        self._data, self._failure = data, failure

    def __len__(self) -> int:
        return len(self._data)

    def read_into(self, memory: memoryview) -> None:
        if self._failure is not None:
            raise self._failure
        memory[:] = self._data


def test_external_bytes_are_read_into_the_arena(both) -> None:
    outgoing, incoming, _ = both
    place = outgoing.put(Elsewhere(b"hello"))
    assert bytes(incoming.view(place, 5)) == b"hello"


def test_unreadable_bytes_take_no_space(both) -> None:
    outgoing, _, _ = both
    everything = bytes(shared_memory.SIZE - shared_memory.FLAGS)
    with pytest.raises(InvalidRequest):
        outgoing.put(Elsewhere(everything, InvalidRequest("gone")))
    assert outgoing.put(everything) is not None


def test_random_use_never_overlaps_and_coalesces(both) -> None:
    outgoing, incoming, _ = both
    dice = random.Random(7)
    held: dict[int, bytes] = {}
    for i in range(500):
        if held and dice.random() < 0.5:
            place = dice.choice(list(held))
            assert bytes(incoming.view(place, len(held[place]))) == held.pop(place)
            outgoing.free([place])
        else:
            data = bytes([i % 256]) * dice.randrange(1, 50_000)
            held[outgoing.put(data)] = data
    outgoing.free(list(held))
    assert outgoing.put(b"." * (shared_memory.SIZE - shared_memory.FLAGS)) is not None


def test_empty_arena_keeps_little_memory(both) -> None:
    outgoing, _, _ = both
    before = _shared()
    place = outgoing.put(b"." * 2**27)
    assert _shared() - before > 2**26
    outgoing.free([place])
    assert _shared() - before <= shared_memory.RETAINED + 2**22


def _shared() -> int:
    with open("/proc/self/status") as status:
        (line,) = [line for line in status if line.startswith("RssShmem")]
    return int(line.split()[1]) * 1024

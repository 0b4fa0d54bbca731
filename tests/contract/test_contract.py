"""One call ends once, with what its model made or with a clear error: over every door, wherever the model runs."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.contract.doors import DOORS, Asked, Failed
from tests.contract.hosts import HOSTS, Host
from tests.serving import eventually

_names = count()

EVERY_DOOR = pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
TALKING = {name: door for name, door in DOORS.items() if door.talks}
"""Doors over which a call may have many requests."""


@pytest.fixture(scope="module", params=HOSTS.values(), ids=HOSTS)
def start(request: pytest.FixtureRequest) -> Callable[[Path], Host]:
    return request.param


@pytest.fixture(scope="module")
def host(start: Callable[[Path], Host], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    running = start(tmp_path_factory.mktemp("contract"))
    yield running
    assert running.stop() == 0


class Stopped(NamedTuple):
    """A host that was stopped while a stream was open over every door, and how each of them ended."""

    host: Host
    calls: dict[object, Asked]
    ends: dict[object, tuple[list[str], Failed | None]]
    status: int


@pytest.fixture(scope="module")
def stopped(start: Callable[[Path], Host], tmp_path_factory: pytest.TempPathFactory) -> Stopped:
    host = start(tmp_path_factory.mktemp("stopped"))
    calls = {door: asked("streaming", items=12, delay=0.05) for door in DOORS.values()}
    streams = [door.stream(host, call) for door, call in calls.items()]
    try:
        with ThreadPoolExecutor(len(streams)) as pool:
            assert set(pool.map(next, streams)) == {"item 0"}
            host.begin_stop()
            ends = dict(zip(calls, pool.map(lambda items: rest(items, "item 0"), streams), strict=True))
        eventually(lambda: all(host.noted(f"finally {call.id}") for call in calls.values()))
    finally:
        status = host.stop()
    return Stopped(host, calls, ends, status)


@pytest.fixture(scope="module")
def overdue(host: Host) -> dict[object, tuple[Asked, list[str], Failed | None]]:
    """Streams over every door, at the same time, whose deadline is over once they have begun."""
    calls = [asked("streaming", timeout=1_500_000, items=10**6, delay=0.05) for _ in DOORS]
    streams = [door.stream(host, call) for door, call in zip(DOORS.values(), calls, strict=True)]
    with ThreadPoolExecutor(len(streams)) as pool:
        ends = list(pool.map(rest, streams))
    return {door: (call, *end) for door, call, end in zip(DOORS.values(), calls, ends, strict=True)}


@pytest.fixture(scope="module")
def unread(host: Host) -> dict[object, tuple[Asked, bool]]:
    """Streams over every door, at the same time, that nobody reads for a second; and whether their models ended."""
    calls = {door: asked("spinning", size=100_000, items=3000) for door in DOORS.values()}
    streams = [door.stream(host, call) for door, call in calls.items()]
    for items in streams:
        next(items)
    with suppress(AssertionError):
        eventually(lambda: all(host.noted(f"finally {call.id}") for call in calls.values()), 1)
    found = {door: (call, host.noted(f"finally {call.id}")) for door, call in calls.items()}
    for items in streams:
        items.close()
    return found


def rest(items: Iterator[str], *read: str) -> tuple[list[str], Failed | None]:
    """All items of a stream, those that were read included, and the error that ended it."""
    found = [*read]
    try:
        found.extend(items)
    except Failed as failed:
        return found, failed
    return found, None


def asked(model: str, words: str = "hello", **parameters: object) -> Asked:
    return Asked(model, f"call-{next(_names)}", parameters, words)


@EVERY_DOOR
def test_single_response(host: Host, door) -> None:
    assert door.single(host, asked("echo", "grüße")) == "grüße"


@EVERY_DOOR
def test_stream_items_arrive_in_order_and_immediately(host: Host, door) -> None:
    call = asked("streaming", items=20, delay=0.02)
    items = door.stream(host, call)
    assert next(items) == "item 0"
    assert not host.noted(f"finally {call.id}"), "the first item waited for the last"
    assert [*items] == [f"item {i}" for i in range(1, 20)]


@pytest.mark.parametrize("door", TALKING.values(), ids=TALKING)
def test_bidirectional_stream(host: Host, door) -> None:
    call = asked("both")
    talk = door.talk(host, "both")
    try:
        for last in (False, False, True):
            talk.send(call, last=last)
            assert next(talk) == f"streamed {call.id}"
        assert [*talk] == []
    finally:
        talk.close()


@pytest.mark.parametrize("door", TALKING.values(), ids=TALKING)
def test_client_stream_with_one_response(host: Host, door) -> None:
    call = asked("collecting")
    talk = door.talk(host, "collecting")
    try:
        for number in range(5):
            talk.send(call._replace(words=f"word{number}"), last=number == 4)
        assert [*talk] == ["word0 word1 word2 word3 word4"]
    finally:
        talk.close()


@EVERY_DOOR
def test_client_disconnect_ends_model(host: Host, door) -> None:
    left: list[str] = []

    def one_has_ended() -> bool:
        if not left or not host.sees_leaving:
            call = asked("streaming", items=4000, delay=0.01)
            items = door.stream(host, call)
            next(items)
            items.close()
            left.append(call.id)
        return any(host.noted(f"finally {id}") for id in left)

    eventually(one_has_ended)
    assert door.single(host, asked("echo", "still here")) == "still here"


@EVERY_DOOR
@pytest.mark.parametrize("model", ["slow", "streaming"])
def test_deadline_ends_call(host: Host, door, model: str) -> None:
    call = asked(model, timeout=300_000, seconds=60, before=60)
    with pytest.raises(Failed) as failed:
        door.single(host, call) if model == "slow" else [*door.stream(host, call)]
    assert failed.value.code in ("deadline_exceeded", None)
    eventually(lambda: host.noted(f"finally {call.id}"))


@EVERY_DOOR
def test_deadline_ends_running_stream(host: Host, overdue, door) -> None:
    call, items, failed = overdue[door]
    assert items[0] == "item 0"
    assert failed is not None
    assert failed.code in ("deadline_exceeded", None)
    assert failed.in_band
    eventually(lambda: host.noted(f"finally {call.id}"))


@EVERY_DOOR
def test_model_failure_hides_exception_message(host: Host, door) -> None:
    with pytest.raises(Failed) as failed:
        door.single(host, asked("failing"))
    assert failed.value.code in ("internal", None)


@EVERY_DOOR
def test_failure_before_first_item_is_status(host: Host, door) -> None:
    with pytest.raises(Failed) as failed:
        next(door.stream(host, asked("streaming", fail_at=0)))
    assert failed.value.code in ("internal", None)
    assert failed.value.in_band == (door in (DOORS["websocket"], DOORS.get("triton")))


@EVERY_DOOR
def test_failure_mid_stream_keeps_earlier_items(host: Host, door) -> None:
    items = door.stream(host, asked("streaming", items=5, fail_at=3))
    assert [next(items) for _ in range(3)] == ["item 0", "item 1", "item 2"]
    with pytest.raises(Failed) as failed:
        next(items)
    assert failed.value.code in ("internal", None)
    assert failed.value.in_band


@EVERY_DOOR
def test_an_unknown_model_is_not_found(host: Host, door) -> None:
    with pytest.raises(Failed) as failed:
        door.single(host, asked("nobody"))
    assert failed.value.code in ("not_found", None)


@EVERY_DOOR
def test_malformed_request_is_refused(host: Host, door) -> None:
    with pytest.raises(Failed) as failed:
        door.single(host, asked("echo", timeout=-1))
    assert failed.value.code in ("invalid", None)


@EVERY_DOOR
def test_slow_reader_applies_backpressure_to_model(host: Host, unread, door) -> None:
    call, ended_unread = unread[door]
    assert not ended_unread or not host.holds_back
    eventually(lambda: host.noted(f"finally {call.id}"))


@EVERY_DOOR
def test_stop_lets_streams_finish(stopped: Stopped, door) -> None:
    items, error = stopped.ends[door]
    if door is DOORS["websocket"] and stopped.host.closes_sockets:
        assert error is not None
        assert "closed" in str(error)
    else:
        assert (items, error) == ([f"item {i}" for i in range(12)], None)
    assert stopped.host.noted(f"finally {stopped.calls[door].id}")
    assert stopped.status == 0

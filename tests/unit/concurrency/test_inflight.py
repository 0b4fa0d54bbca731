"""Bytes in flight: what counts, what is refused, and what is given back."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from inferstream.concurrency import inflight as module
from inferstream.concurrency.inflight import (
    AHEAD,
    COUNTED_BYTES,
    FAIR_RATE,
    FAIR_SECONDS,
    WORTH_RETURNING,
    InflightBytes,
    NoRoom,
    RequestBytes,
)

LIMIT = 1000


def test_bytes_over_the_limit_are_refused_and_not_counted() -> None:
    inflight = InflightBytes(LIMIT)
    one, other = RequestBytes(inflight), RequestBytes(inflight)
    one.add(600)
    with pytest.raises(NoRoom):
        other.add(401)
    assert (inflight.held, inflight.refused) == (600, 1)
    one.close()
    RequestBytes(inflight).add(LIMIT)
    assert inflight.held == LIMIT


def test_announced_body_is_checked_early_and_counted_on_arrival() -> None:
    inflight = InflightBytes(LIMIT)
    with pytest.raises(NoRoom):  # not by its announcement: the limit of bodies refuses it
        RequestBytes(inflight, LIMIT + 1).add(LIMIT)
    one = RequestBytes(inflight, 900)
    assert inflight.held == 0
    one.add(10)
    assert inflight.held == 10 * AHEAD
    one.add(600)
    assert inflight.held == 900
    with pytest.raises(NoRoom):
        RequestBytes(inflight, 200)


def test_ended_request_holds_no_bytes() -> None:
    inflight = InflightBytes(LIMIT)
    with RequestBytes(inflight) as held:
        held.resize(500)
        held.resize(300)
        assert inflight.held == 300
    held.add(100)
    held.close()
    assert inflight.held == 0


def test_small_requests_are_not_counted() -> None:
    held = RequestBytes(inflight := InflightBytes())
    held.add_whole(COUNTED_BYTES)
    assert inflight.held == 0
    held.add_whole(COUNTED_BYTES + 1)
    assert inflight.held == COUNTED_BYTES + 1


@pytest.mark.parametrize(("front_ends", "share"), [(1, 1000), (2, 500), (4, 300)])
def test_front_ends_divide_the_limit_and_fit_one_body(front_ends: int, share: int) -> None:
    inflight = InflightBytes()
    inflight.set_limit(1000, front_ends, 300)
    assert inflight.limit == share


def test_memory_is_returned_once_after_many_freed_bytes() -> None:
    inflight, returned = InflightBytes(), []
    inflight.on_fall = lambda: returned.append(inflight.held)
    requests = [RequestBytes(inflight) for _ in range(8)]
    for each in requests:
        each.add(WORTH_RETURNING // 4)
    for each in requests:
        each.close()
    assert returned == [WORTH_RETURNING // 2]
    small = RequestBytes(inflight)
    small.add(WORTH_RETURNING // 4)
    small.close()
    assert len(returned) == 1


class Client:
    """Sends a body, or has sent it."""

    def __init__(self, receiving: bool = True) -> None:
        self.receiving = receiving
        self.ended = False

    def time_out(self) -> None:
        self.ended = True


def test_slowest_unfair_upload_is_dropped_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr(module, "monotonic", lambda: now)
    inflight = InflightBytes(10 * FAIR_RATE)
    whole, fast, slow, slowest = clients = [Client(False), Client(), Client(), Client()]
    for client, size in zip(clients, (1, 7 * FAIR_RATE, 2000, 1000), strict=True):
        RequestBytes(inflight, upload=client).receive(size)
    other = RequestBytes(inflight)
    with pytest.raises(NoRoom):  # all are new
        other.add(3 * FAIR_RATE)
    now += FAIR_SECONDS + 1
    other.add(3 * FAIR_RATE - 2001)
    assert slowest.ended
    assert not slow.ended
    other.add(2000)
    assert slow.ended
    now += 1
    with pytest.raises(NoRoom):
        other.add(2)
    assert not whole.ended
    assert not fast.ended
    assert (inflight.held, inflight.refused) == (10 * FAIR_RATE, 2)


def test_upload_is_not_ended_by_itself_or_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(module, "monotonic", lambda: now)
    inflight, client = InflightBytes(1000), Client()
    upload = RequestBytes(inflight, upload=client)
    upload.add(900)
    now += FAIR_SECONDS + 1
    with pytest.raises(NoRoom):
        upload.add(200)
    now += 1
    with ThreadPoolExecutor(1) as pool, pytest.raises(NoRoom):
        pool.submit(RequestBytes(inflight).add, 200).result()
    assert not client.ended

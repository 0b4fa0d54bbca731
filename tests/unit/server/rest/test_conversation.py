"""The queue of a call's later requests: a full one pauses its connection."""

import asyncio
from typing import Any, cast

import pytest

from inferstream.server.rest.request_stream import WAITING, WAITING_BYTES, RequestStream


class Reading:
    def __init__(self) -> None:
        self.reasons: set[object] = set()

    def hold(self, reason: object) -> None:
        self.reasons.add(reason)

    def release(self, reason: object) -> None:
        self.reasons.discard(reason)


def request(number: int) -> Any:
    return cast(Any, number)


@pytest.mark.parametrize(("count", "size"), [(WAITING, 1), (2, WAITING_BYTES // 2), (1, 2 * WAITING_BYTES)])
async def test_full_queue_pauses_the_connection_until_a_request_is_taken(count: int, size: int) -> None:
    reading = Reading()
    requests = RequestStream(reading)
    for number in range(count):
        assert not reading.reasons
        requests.add(request(number), size)
    assert reading.reasons == {requests}
    assert await anext(requests) == 0
    assert not reading.reasons


async def test_requests_arrive_before_the_end_and_none_after() -> None:
    requests = RequestStream(Reading())
    requests.add(request(1), 1)
    requests.end()
    requests.add(request(2), 1)
    assert [each async for each in requests] == [1]


async def test_end_of_call_releases_connection_and_requests() -> None:
    reading = Reading()
    requests = RequestStream(reading)
    for number in range(WAITING):
        requests.add(request(number), 1)
    requests.close()
    assert not reading.reasons
    requests.add(request(1), 2 * WAITING_BYTES)
    assert not reading.reasons
    async with asyncio.timeout(5):
        assert [each async for each in requests] == []

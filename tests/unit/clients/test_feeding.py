"""Requests that are sent while responses are read."""

import asyncio

import pytest

from inferstream.clients.feeding import feeding
from inferstream.errors import ConnectionFailed


async def test_a_failure_of_what_is_sent_replaces_the_one_that_it_causes() -> None:
    ended = asyncio.Event()

    async def sending() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        async with feeding(sending(), ended.set):
            await ended.wait()
            raise ConnectionFailed("aborted")
    with pytest.raises(KeyError, match="mine"):
        async with feeding(sending(), ended.set):
            await asyncio.sleep(0)


async def test_the_end_of_the_responses_ends_what_is_sent() -> None:
    closed = asyncio.Event()

    async def sending() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            closed.set()

    async with feeding(sending(), lambda: None):
        await asyncio.sleep(0)
    assert closed.is_set()

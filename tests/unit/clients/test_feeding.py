"""Requests that are sent while responses are read."""

import asyncio

import pytest

from inferstream.clients.feeding import feeding
from inferstream.errors import ConnectionFailed


async def test_sending_error_replaces_the_resulting_call_error() -> None:
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


async def test_end_of_responses_ends_the_input_stream() -> None:
    closed = asyncio.Event()

    async def sending() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            closed.set()

    async with feeding(sending(), lambda: None):
        await asyncio.sleep(0)
    assert closed.is_set()

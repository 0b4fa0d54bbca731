"""Calls as callers want them, and their time limits."""

import asyncio
import math

import pytest

from inferstream.clients.asked import AskedCall, limited
from inferstream.clients.model_types import Later
from inferstream.clients.transport import ModelName
from inferstream.errors import CallTimedOut


def asked(until: float, **arguments: object) -> AskedCall:
    return AskedCall(ModelName("m"), arguments, {}, {}, 0.25, until)


async def test_a_limit_that_passes_within_the_block_is_a_failure_of_the_call() -> None:
    with pytest.raises(CallTimedOut, match=r"no answer within 0\.25 s"):
        async with limited(asked(asyncio.get_running_loop().time() - 1)):
            await asyncio.Event().wait()


async def test_a_time_out_of_the_block_itself_stays_what_it_is() -> None:
    with pytest.raises(TimeoutError, match="mine") as caught:
        async with limited(asked(math.inf)):
            raise TimeoutError("mine")
    assert not isinstance(caught.value, CallTimedOut)


async def test_a_call_without_a_limit_has_all_the_time() -> None:
    assert asked(math.inf).left() == math.inf
    assert asked(asyncio.get_running_loop().time() - 1).left() > 0


async def test_a_call_has_begun_when_a_value_of_its_stream_was_taken() -> None:
    async def values():  # type: ignore[no-untyped-def]
        yield 1
        yield 2

    later = Later(values())
    call = asked(math.inf, a=1, xs=later)
    assert not call.begun()
    assert await anext(aiter(later)) == 1
    assert call.begun()

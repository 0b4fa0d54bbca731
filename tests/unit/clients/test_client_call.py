"""Calls as callers want them, and their time limits."""

import asyncio
import math

import pytest

from inferstream.clients.client_call import ClientCall, limited
from inferstream.clients.model_types import Later
from inferstream.clients.transport import ModelName
from inferstream.errors import CallTimedOut


def asked(until: float, **arguments: object) -> ClientCall:
    return ClientCall(ModelName("m"), arguments, {}, {}, 0.25, until)


async def test_expired_limit_fails_the_call() -> None:
    with pytest.raises(CallTimedOut, match=r"no answer within 0\.25 s"):
        async with limited(asked(asyncio.get_running_loop().time() - 1)):
            await asyncio.Event().wait()


async def test_timeout_error_of_the_block_is_unchanged() -> None:
    with pytest.raises(TimeoutError, match="mine") as caught:
        async with limited(asked(math.inf)):
            raise TimeoutError("mine")
    assert not isinstance(caught.value, CallTimedOut)


async def test_call_without_limit_never_expires() -> None:
    assert asked(math.inf).seconds_left() == math.inf
    assert asked(asyncio.get_running_loop().time() - 1).seconds_left() > 0


async def test_call_has_begun_once_a_stream_value_is_taken() -> None:
    async def values():  # type: ignore[no-untyped-def]
        yield 1
        yield 2

    later = Later(values())
    call = asked(math.inf, a=1, xs=later)
    assert not call.has_begun()
    assert await anext(aiter(later)) == 1
    assert call.has_begun()

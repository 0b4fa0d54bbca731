"""The end of a model's stream: what its `finally` does, and who waits for it."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from inferstream import App
from inferstream.dataplane.call import Operation
from inferstream.dataplane.caller import Caller
from inferstream.testing import run
from inferstream.types import Headers, InferenceRequest

app = App()


@app.model
async def hangs_up() -> AsyncIterator[str]:
    task = asyncio.create_task(asyncio.sleep(3600))
    try:
        while True:
            yield "a"
    finally:
        task.cancel()
        await task


async def test_a_cleanup_that_ends_cancelled_cancels_no_reader(caplog: pytest.LogCaptureFixture) -> None:
    async with run(app) as client:
        caller = Caller(Headers(()), "", asyncio.current_task())
        admission = client.application.dataplane.admit("hangs_up", None, caller)
        async with await admission.open(Operation.STREAM, InferenceRequest(inputs=[])) as reply:
            await reply.aclose(None)
    assert "failed in its cleanup" in caplog.text

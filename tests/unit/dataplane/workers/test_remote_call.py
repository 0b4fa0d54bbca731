"""One call in a worker, seen from the server: what cannot be sent is told, and takes no memory with it."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
import numpy as np
import pytest

from inferstream.dataplane.call import Call, Operation
from inferstream.dataplane.workers.frames import Cancel, More, Open, Wanted
from inferstream.dataplane.workers.remote_call import RemoteCall
from inferstream.errors import DeadlineExceeded, Draining
from inferstream.plugins.keys.shares import SHARE, Share
from inferstream.processes import shared_memory
from inferstream.processes.frames import UNENCODABLE, Frame, encode_foreign
from inferstream.types import InferenceRequest, Parameters, RequestInput


class Sent:
    """The link to a worker, which keeps what is sent."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []

    def send(self, frame: Frame) -> int:
        size = len(msgspec.msgpack.encode(frame, enc_hook=encode_foreign))
        self.frames.append(frame)
        return size


def large(**parameters: object) -> InferenceRequest:
    tensor = RequestInput(name="x", shape=[100_000], datatype="FP32", data=np.ones(100_000, np.float32))
    return InferenceRequest(id="r", inputs=[tensor], parameters=Parameters(**parameters))


@pytest.fixture
def outgoing():
    with shared_memory.create_memory() as descriptor:
        return shared_memory.Outgoing(descriptor)


def remote(call: Call, link: Sent) -> RemoteCall:
    return RemoteCall(1, call, 8, None, lambda: None, link)


def everything_fits(outgoing: shared_memory.Outgoing) -> bool:
    return outgoing.put(bytes(shared_memory.SIZE - shared_memory.FLAGS)) is not None


async def test_unsendable_request_takes_no_memory(outgoing) -> None:
    call = Call(Operation.INFER, "m", None, large(huge=2**70), {})
    with pytest.raises(UNENCODABLE):
        remote(call, Sent()).send(1, outgoing)
    assert everything_fits(outgoing)


async def test_worker_receives_the_fair_share_of_the_call(outgoing) -> None:
    link = Sent()
    for share in (None, Share("team", 3)):
        call = Call(Operation.INFER, "m", None, InferenceRequest(id="r", inputs=[]), {})
        if share is not None:
            SHARE.set(call, share)
        remote(call, link).send(1, outgoing)
    assert [frame.values for frame in link.frames if isinstance(frame, Open)] == [
        None,
        {"share": ("team", 3)},
    ]


async def test_unsendable_later_request_ends_the_requests(outgoing) -> None:
    async def later() -> AsyncIterator[InferenceRequest]:
        yield large(huge=2**70)

    tensor = RequestInput(name="x", shape=[1], datatype="INT8", data=[1])
    call = Call(Operation.STREAM, "m", None, InferenceRequest(id="r", inputs=[tensor]), {}, later())
    link = Sent()
    opened = remote(call, link)
    opened.send(1, outgoing)
    opened.request_more(Wanted(opened.number, 8))

    async with asyncio.timeout(5):
        while not isinstance(link.frames[-1], More):
            await asyncio.sleep(0)

    assert link.frames[-1].request is None
    assert "cannot be sent" in link.frames[-1].failure.message
    assert everything_fits(outgoing)


@pytest.mark.parametrize(("error", "expired"), [(DeadlineExceeded(), True), (Draining(), False)])
async def test_worker_distinguishes_timeout_from_cancellation(
    outgoing, error: Exception, expired: bool
) -> None:
    call = Call(Operation.INFER, "m", None, large(), {})
    opened = remote(call, link := Sent())
    opened.send(1, outgoing)
    call.end(error)
    opened.cancel()
    assert link.frames[-1] == Cancel(1, expired)
    opened.finish()

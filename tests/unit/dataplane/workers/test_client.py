"""Values of functions between a worker and a front end, and what both remember of their forms."""

import asyncio
import os
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from inferstream.dataplane.call import Call, Operation
from inferstream.dataplane.workers import frames
from inferstream.dataplane.workers.call_counts import WorkerLoads, create_loads
from inferstream.dataplane.workers.client import WorkerClient
from inferstream.dataplane.workers.instance import ResponseSender
from inferstream.dataplane.workers.remote_call import RemoteCall
from inferstream.processes.frames import Frame
from inferstream.types import InferenceRequest
from inferstream.types.forms import OutputForm
from inferstream.types.inference import respond


class Front(WorkerClient):
    """A front end without a process. It gets the frames of a sender at once."""

    def __init__(self) -> None:
        self._forms = {}
        self._calls = {}
        self._load = None
        self._number = self.completed = 0
        self._flags = memoryview(bytearray(2))
        self._outgoing = cast(Any, SimpleNamespace(put=None))
        self._endpoint = cast(Any, SimpleNamespace(link=self))
        self._decode = msgspec.msgpack.Decoder(frames.Form | frames.ItemOf | frames.Item).decode

    def send(self, frame: Frame) -> int:
        if isinstance(frame, frames.Form | frames.ItemOf):
            received = self._decode(msgspec.msgpack.encode(frame))
            if isinstance(received, frames.Form):
                self._receive_form(received)
            else:
                self._receive_value(received)
        return 1

    def call(self) -> RemoteCall:
        call = Call(Operation.STREAM, "m", None, InferenceRequest(id="r", inputs=[]), {})
        return self.open(call, 1, 8, None, lambda _: None)


@pytest.fixture(name="few")
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("frames", "instance"):
        monkeypatch.setattr(f"inferstream.dataplane.workers.{module}.MAX_FORMS", 4)


async def test_reloading_models_does_not_leak_memory(few: None) -> None:
    front, known = Front(), dict[OutputForm, int]()
    remote = front.call()
    call = Call(
        Operation.STREAM, "m", None, InferenceRequest(id="r", inputs=[]), {}, task=asyncio.current_task()
    )
    packed = frames.PackedRequest("r", None, [], None)
    frame = frames.Open(1, 1, True, 8, False, None, 5, packed)
    sender = ResponseSender(call, frame, None, cast(Any, front), cast(Any, None), known)
    forms = [OutputForm("m", str(load), "output", "BYTES", (1,)) for load in range(10)]
    for form in (*forms, forms[3], forms[9], forms[3]):
        respond(form, "text", "r").accept(sender)
        response = await anext(remote)
        assert response.form is not None
        assert (response.model_version, response.value, response.id) == (form.model_version, "text", "r")
        assert len(known) == len(front._forms) <= 4


async def test_unary_call_is_not_counted_after_its_end() -> None:
    descriptor = create_loads(1)
    load = WorkerLoads(descriptor, 0, 1).of(1)
    os.close(descriptor)
    front = Front()
    front.share(load)
    front.call()
    assert front.active == load.total == 1
    front.send(frames.Form(1, OutputForm("m", None, "output", "BYTES", (1,))))
    front.send(frames.ItemOf(1, 1, "text", last=True))
    assert load.total == 0

"""Clients that call the model as doors do, and write down what they get."""

import asyncio
import weakref
from functools import partial

from inferstream.concurrency.scope import ClientLeft, Scope
from inferstream.dataplane.call import Operation
from inferstream.dataplane.caller import Caller
from inferstream.dataplane.dataplane import DataPlane
from inferstream.errors import NotFound
from inferstream.types import Headers, InferenceResponse

from .ledger import Ledger, Seen
from .models import request_of, values_of


class Client:
    def __init__(self, ledger: Ledger, dataplane: DataPlane, seen: Seen, number: int) -> None:
        self._ledger = ledger
        self._dataplane = dataplane
        self._seen = seen
        self._id = f"call {number}"
        self.task: asyncio.Task[None] | None = None
        visit = seen.visit
        if visit.cancel:
            ledger.loop.at_step(visit.cancel_step, partial(self._cancel, visit.cancel))

    async def run(self) -> None:
        if self._seen.visit.at:
            await asyncio.sleep(self._seen.visit.at)
        self.task = asyncio.current_task()
        try:
            await self._call()
        except BaseException as error:
            self._end(type(error).__name__, str(error))
        else:
            self._end("")
        finally:
            self.task = None

    def _end(self, kind: str, said: str = "") -> None:
        self._seen.ends.append(kind)
        self._seen.said = said
        self._seen.ended = self._ledger.loop.time()

    async def _call(self) -> None:
        ledger, seen, visit = self._ledger, self._seen, self._seen.visit
        loop = ledger.loop
        seen.others = ledger.occupied
        seen.opened, seen.opened_turn = loop.time(), loop.turns
        if visit.timeout is not None:
            seen.deadline = loop.time() + visit.timeout
        caller = Caller(Headers(()), "v2", asyncio.current_task(), None, seen.deadline, visit.priority)
        admission = self._dataplane.admit("m", None, caller)
        request = request_of(visit.value, self._id)
        seen.request = weakref.ref(request)
        operation = Operation.STREAM if visit.streams else Operation.INFER
        opening = admission.open(operation, request)
        del request, admission
        async with await opening as reply:
            del opening
            if not visit.streams:
                assert reply.first is not None
                self._read(reply.first)
                return
            if len(seen.items) >= visit.leaves:
                return
            async for response in reply:
                self._read(response)
                if len(seen.items) >= visit.leaves:
                    return
                if visit.reading:
                    await asyncio.sleep(visit.reading)

    def _read(self, response: InferenceResponse) -> None:
        (value,) = values_of(response.outputs)
        self._seen.items.append(value)
        if response.id not in (None, self._id):
            self._ledger.faults.append(f"{self._id} got the response to {response.id}")

    def _cancel(self, how: str) -> None:
        task = self.task
        if task is None or not self._seen.open:
            return
        if how == "id":
            self._ledger.tasks.append(asyncio.get_running_loop().create_task(self._cancel_by_id()))
            return
        self._seen.cancelled = how
        if how == "scope":
            Scope(task).end(ClientLeft())
        else:
            task.cancel()

    async def _cancel_by_id(self) -> None:
        try:
            count = await self._dataplane.cancel(self._id, Caller(Headers(()), "v2"))
        except NotFound:
            return
        self._seen.cancelled = "id"
        if count != 1:
            self._ledger.faults.append(f"{count} calls were cancelled by one id")

"""One front end, for a worker: its link, its calls, and the shared memory."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from ...concurrency.tasks import Tasks
from ...errors import InferstreamError, WorkerLost
from ...processes.frames import Frame, pack_failure, unpack_failure
from ...processes.link import Link
from ...processes.shared_memory import Memory
from ...types import Headers
from ..execution.responses import translated
from . import frames
from .instance import Instance, Models, RemoteRequests, ResponseSender, WorkerCall
from .packing import unpack_request

MakeLink = Callable[..., Link]
"""Makes the link from a decoder, and functions for each frame and for its end."""


class Peer:
    """Runs the calls of one front end. `kinds` are its frames, `more` has the handlers of frames that are not calls."""

    def __init__(
        self,
        link: MakeLink,
        kinds: Any,
        memory: tuple[int, int],
        models: Models,
        more: dict[type[Frame], Callable[[Any], object]],
        lost: Callable[[], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._models = models
        self._memory = Memory(*memory, lambda places: self.send(frames.Free(places)))
        self._incoming, self._outgoing = self._memory.incoming, self._memory.outgoing
        self._calls: dict[int, ResponseSender] = {}
        self._cancelled: set[int] = set()
        self._forms: set[int] = set()
        """The numbers of the forms of values that the front end knows."""
        self._tasks = Tasks()
        self.spawn = self._tasks.start
        self._frames: dict[type[Frame], Callable[[Any], object]] = {
            frames.Open: self._open,
            frames.More: self._more,
            frames.Credit: self._credit,
            frames.Cancel: self._cancel,
            frames.Describe: lambda frame: self.spawn(self._ask(frame)),
            frames.CallRoute: lambda frame: self.spawn(self._ask(frame)),
            frames.Free: lambda frame: self._outgoing.free(frame.places),
            **more,
        }
        self._link = link(msgspec.msgpack.Decoder(kinds), self._received, lost)
        self.send = self._link.send

    @property
    def awaited(self) -> int:
        return len(self._calls) - len(self._cancelled)

    def _received(self, frame: Frame) -> None:
        self._frames[type(frame)](frame)

    def _open(self, frame: frames.Open) -> None:
        request = unpack_request(frame.request, self._incoming.view)
        instance = self._models.instances.get(frame.instance)
        if instance is None:
            self._refuse(frame.call)
            return
        local = instance.local
        if self._models.events is not None:
            self._models.events.add_to(request, local.settings.name)
        more = RemoteRequests(frame.call, self._link) if frame.more else None
        call = WorkerCall(frame, request, local.settings, more, self._outgoing.flags)
        sender = self._calls[frame.call] = ResponseSender(
            call, frame, more, self._link, self._outgoing, self._forms
        )
        task = call.task = self._loop.create_task(sender.run(instance.handler))
        task.add_done_callback(partial(self._done, sender, instance))

    def _refuse(self, call: int) -> None:
        """The model is unloaded, and the caller does not know it yet."""
        error = WorkerLost("The worker process does not have the model of this request any more.")
        self.send(frames.Failed(call, pack_failure(error)))

    def _done(self, sender: ResponseSender, instance: Instance, task: "asyncio.Task[None]") -> None:
        number = sender.number
        del self._calls[number]
        if self._cancelled:
            self._cancelled.discard(number)
        if task.cancelled():
            # Cancelled before its first step, so it never ran.
            instance.queue.left(sender.call.expired)
            self.send(frames.Ended(number))

    def _more(self, frame: frames.More) -> None:
        # Unpacked even without a caller, because dropping the tensors frees their places.
        request = None if frame.request is None else unpack_request(frame.request, self._incoming.view)
        sender = self._calls.get(frame.call)
        if sender is None or sender.more is None:
            return
        if request is None:
            sender.more.end(None if frame.failure is None else unpack_failure(frame.failure))
            return
        if self._models.events is not None:
            self._models.events.add_to(request, sender.call.model)
        sender.more.came(request)

    def _credit(self, frame: frames.Credit) -> None:
        sender = self._calls.get(frame.call)
        if sender is not None:
            sender.credit(frame.count)

    def _cancel(self, frame: frames.Cancel) -> None:
        sender = self._calls.get(frame.call)
        if sender is not None:
            self._cancelled.add(frame.call)
            sender.cancel(frame.expired)

    async def _ask(self, frame: frames.Describe | frames.CallRoute) -> None:
        instance = self._models.instances.get(frame.instance)
        if instance is None:
            self._refuse(frame.call)
            return
        local = instance.local
        try:
            if isinstance(frame, frames.Describe):
                metadata = await local.metadata()
                self.send(frames.Described(frame.call, metadata.model_dump_json().encode()))
                return
            if self._models.tracing is not None:
                self._models.tracing.enter(Headers(frame.request.headers))
            self.send(frames.RouteCalled(frame.call, await local.ask(frame.request)))
        except BaseException as error:  # model code may raise anything
            failure = translated(error, local.settings.name, None)
            assert isinstance(failure, InferstreamError)
            self.send(frames.Failed(frame.call, pack_failure(failure)))

    def end(self) -> None:
        """The front end has ended. Cancel its calls."""
        self._link.close()
        for sender in self._calls.values():
            sender.cancel()
        self.spawn(self._let_go())

    async def _let_go(self) -> None:
        """Release its memory when no call writes there."""
        while tasks := [sender.call.task for sender in self._calls.values() if sender.call.task is not None]:
            await asyncio.wait(tasks)
            await asyncio.sleep(0)
        self._memory.close()

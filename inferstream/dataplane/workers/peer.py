"""The connection of a worker to one front end: its link, calls and shared memory."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from ...concurrency.scope import ClientLeft
from ...errors import DeadlineExceeded, WorkerLost
from ...handlers import HttpResponse
from ...processes.endpoint import Endpoint, Handlers, MakeLink
from ...processes.frames import pack_failure, unpack_failure
from ...processes.shared_memory import Memory
from ...types.forms import OutputForm
from ..execution.local import Local
from ..execution.responses import cause, translate_error
from . import frames
from .instance import Instance, Models, RemoteRequests, ResponseSender, WorkerCall
from .packing import unpack_request
from .routes import RouteExchanges


class ConnectedFrontEnd:
    """Runs the calls of one front end. `more` handles frames that do not belong to calls."""

    def __init__(
        self,
        link: MakeLink,
        memory: tuple[int, int],
        models: Models,
        more: Handlers,
        lost: Callable[[], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._models = models
        self._memory = Memory(*memory, lambda places: self.send(frames.Free(places)))
        self._incoming, self._outgoing = self._memory.incoming, self._memory.outgoing
        self._calls: dict[int, ResponseSender] = {}
        self._cancelled: set[int] = set()
        self._routes = RouteExchanges()
        self._forms: dict[OutputForm, int] = {}
        """Forms that were sent to the front end, and their numbers."""
        handlers: Handlers = {
            frames.Open: self._open,
            frames.More: self._more,
            frames.Credit: self._credit,
            frames.Cancel: self._cancel,
            frames.Describe: self._describe,
            frames.CallRoute: self._call_route,
            frames.ReadBody: self._routes.read,
            frames.LeaveRoute: self._routes.leave,
            frames.Free: lambda frame: self._outgoing.free(frame.places),
            **more,
        }
        endpoint = Endpoint(link, handlers, lost)
        self._link, self.send, self.spawn = endpoint.link, endpoint.send, endpoint.spawn

    @property
    def awaited(self) -> int:
        return len(self._calls) - len(self._cancelled)

    def _open(self, frame: frames.Open) -> None:
        request = unpack_request(frame.request, self._incoming.view)
        instance = self._models.instances.get(frame.instance)
        if instance is None:
            self.send(frames.Failed(frame.call, pack_failure(_unload_error())))
            return
        local = instance.local
        for mark in self._models.marks:
            mark(request, local.settings.name)
        more = RemoteRequests(frame.call, self._link) if frame.more else None
        call = WorkerCall(frame, request, local.settings, more, self._outgoing.flags)
        sender = self._calls[frame.call] = ResponseSender(
            call, frame, more, self._link, self._outgoing, self._forms
        )
        task = call.task = self._loop.create_task(sender.run(instance.handler))
        task.add_done_callback(partial(self._forget_call, sender, instance))

    def _forget_call(self, sender: ResponseSender, instance: Instance, task: "asyncio.Task[None]") -> None:
        number = sender.number
        del self._calls[number]
        if self._cancelled:
            self._cancelled.discard(number)
        if task.cancelled():
            # It was cancelled before its first step, so it never ran.
            instance.meters.queue.count_early_exit(sender.call.expired)
            self.send(frames.Ended(number))

    def _more(self, frame: frames.More) -> None:
        # Unpacked even without a caller, because this frees the tensors' places in shared memory.
        request = None if frame.request is None else unpack_request(frame.request, self._incoming.view)
        sender = self._calls.get(frame.call)
        if sender is None or sender.more is None:
            return
        if request is None:
            sender.more.end(None if frame.failure is None else unpack_failure(frame.failure))
            return
        for mark in self._models.marks:
            mark(request, sender.call.model)
        sender.more.receive(request)

    def _credit(self, frame: frames.Credit) -> None:
        sender = self._calls.get(frame.call)
        if sender is not None:
            sender.credit(frame.count)

    def _cancel(self, frame: frames.Cancel) -> None:
        sender = self._calls.get(frame.call)
        if sender is not None:
            self._cancelled.add(frame.call)
            sender.call.end(DeadlineExceeded() if frame.expired else ClientLeft())

    async def _describe(self, frame: frames.Describe) -> bytes:
        local = self._local(frame.instance)
        try:
            return (await local.metadata()).model_dump_json().encode()
        except BaseException as error:  # Model code may raise anything.
            raise translate_error(error, local.settings.name, None) from cause(error)

    def _call_route(self, frame: frames.CallRoute) -> Awaitable[frames.RouteResponse]:
        return self._routes.start(frame.exchange, self._ask(frame))

    async def _ask(self, frame: frames.CallRoute) -> HttpResponse:
        local = self._local(frame.instance)
        for edge in self._models.edges:
            edge.route(frame.request.headers)
        return await local.call_route(frame.request)

    def _local(self, number: int) -> Local:
        instance = self._models.instances.get(number)
        if instance is None:
            raise _unload_error()
        return instance.local

    def end(self) -> None:
        """Cancel all calls, because the front end has exited."""
        self._link.close()
        self._routes.end()
        for sender in self._calls.values():
            sender.call.end(ClientLeft())
        self.spawn(self._close_memory())

    async def _close_memory(self) -> None:
        """Close the shared memory, once no call can write to it."""
        while tasks := [sender.call.task for sender in self._calls.values() if sender.call.task is not None]:
            await asyncio.wait(tasks)
            await asyncio.sleep(0)
        self._memory.close()


def _unload_error() -> WorkerLost:
    """Return the error for a model that was unloaded before its caller was notified."""
    return WorkerLost("The worker process does not have the model of this request any more.")

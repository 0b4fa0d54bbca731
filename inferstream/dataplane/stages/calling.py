"""Calls between models. They run like client calls, without a transport, inside the caller's own call."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from ...clients.model_types import ModelTypes, derive_types, read_types
from ...concurrency.channel import Channel
from ...concurrency.scope import ClientLeft, Scope
from ...context import models_var
from ...errors import Abandoned, InvalidRequest, NotFound, Unsupported
from ..call import CALL_OF_MODEL, Call, Handler, Operation, identify
from ..call_values import inherit_values
from ..edges import CallEdges, Callee
from ..execution.base import Execution
from ..reply import AtEnd, Reply
from .base import Pipeline
from .limits import release_call_values

T = TypeVar("T")

AHEAD = 8
"""Number of items by which a stream may be ahead of its reader."""

_END = object()


def add_calling(model: Pipeline, edges: CallEdges) -> Pipeline:
    """Let a model call the models in its setting `calls`. Raises ModelLoadFailed for circular calls."""
    settings = model.settings
    key, callees = (settings.name, settings.version), tuple(settings.calls)
    edges.add(key, callees, model.execution)
    forget = partial(edges.remove, model.execution)
    return replace(
        model,
        handler=Calling(model.handler, settings.name, callees, edges),
        at_retirement=(*model.at_retirement, forget),
    )


class Calling:
    """Provides callable models to each call, and cancels nested calls when the call ends."""

    def __init__(self, inner: Handler, name: str, callees: tuple[str, ...], edges: CallEdges) -> None:
        self._inner = inner
        self.name = name
        self.callees = callees
        self.loop = asyncio.get_running_loop()
        self._edges = edges
        self._types: WeakKeyDictionary[Execution, ModelTypes] = WeakKeyDictionary()

    async def __call__(self, call: Call) -> Reply:
        models = ModelsOfCall(self, call)
        models_var.set(models)  # Not reset: the code of a stream runs in this context until it ends.
        try:
            reply = await self._inner(call)
        except BaseException:  # Including cancellation.
            models.end()
            raise
        if reply.single:
            models.end()
            return reply
        return reply.watch(AtEnd(lambda _: models.end()))

    async def reach(self, name: str) -> tuple[Callee, ModelTypes]:
        """Return a model and its types, which are read again after each load.

        Raises ModelNotFound or ModelNotReady.
        """
        callee = await self._edges.reach(name)
        types = self._types.get(callee.execution)
        if types is None:
            types = self._types[callee.execution] = await _find_types(name, callee)
        return callee, types


async def _find_types(name: str, callee: Callee) -> ModelTypes:
    function = (
        None if callee.app is None else callee.app.functions.get((name, callee.execution.settings.version))
    )
    if function is not None:
        return derive_types(function)
    return read_types(await callee.execution.metadata())


class ModelsOfCall:
    """Lets model code call other models during one of its calls. Implements `OtherModels`."""

    def __init__(self, calling: Calling, call: Call) -> None:
        self.calling = calling
        self.call = call
        self._running: set[Call] | None = set()

    def __getattr__(self, name: str) -> Callable[..., "CallOfModel"]:
        return self[name]

    def __getitem__(self, name: str) -> Callable[..., "CallOfModel"]:
        calling = self.calling
        if name not in calling.callees:
            raise AttributeError(
                f'model {calling.name} may not call "{name}": '
                f"its `calls` setting allows only: {', '.join(calling.callees)}"
            )
        return partial(CallOfModel, self, name)

    def add_call(self, call: Call) -> None:
        if self._running is None:
            raise RuntimeError(
                f"cannot call {call.model}: the calling request to {self.calling.name} has ended"
            )
        self._running.add(call)

    def remove_call(self, call: Call) -> None:
        if self._running is not None:
            self._running.discard(call)

    def end(self) -> None:
        """Cancel all running nested calls."""
        running, self._running = self._running or (), None
        for call in running:
            call.end(Abandoned())

    async def run_on_server_loop(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the server's loop, in a separate task that cannot change the current context."""
        loop = self.calling.loop
        if asyncio.get_running_loop() is loop:
            return await loop.create_task(work)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the server's event loop, and block the current thread until it is done.

        Raises TypeError on any event loop, because blocking it could cause a deadlock.
        """
        with suppress(RuntimeError):  # Threads have no running loop.
            asyncio.get_running_loop()
            work.close()
            raise TypeError("a coroutine calls models with `await` and `async for`")
        return asyncio.run_coroutine_threadsafe(work, self.calling.loop).result()


class CallOfModel:
    """A single call of another model. Implements `ModelCall`."""

    def __init__(self, models: ModelsOfCall, name: str, /, *values: Any, **arguments: Any) -> None:
        self._models = models
        self._name = name
        self._values = values
        self._arguments = arguments

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._models.run_on_server_loop(self._value()).__await__()

    def result(self) -> Any:
        return self._models.wait(self._value())

    def __aiter__(self) -> AsyncIterator[Any]:
        if asyncio.get_running_loop() is self._models.calling.loop:
            return self._items()
        return self._items_elsewhere()

    def __iter__(self) -> Iterator[Any]:
        items = self._items()
        try:
            while (item := self._models.wait(_next(items))) is not _END:
                yield item
        finally:
            self._models.wait(items.aclose())

    async def _items_elsewhere(self) -> AsyncGenerator[Any]:
        items = self._items()
        try:
            while (item := await self._models.run_on_server_loop(_next(items))) is not _END:
                yield item
        finally:
            await self._models.run_on_server_loop(items.aclose())

    async def _items(self) -> AsyncGenerator[Any]:
        """Yield the items of the stream, on the server's loop. The model runs in a separate task and context."""
        channel: Channel[Any] = Channel(AHEAD)
        reading = self._models.calling.loop.create_task(self._read_into(channel))
        try:
            async for item in channel:
                yield item
        finally:
            channel.close()
            if not reading.done():
                Scope(reading).end(ClientLeft())
                await asyncio.wait([reading])

    async def _read_into(self, channel: Channel[Any]) -> None:
        try:
            async with self._reply(Operation.STREAM) as (reply, types):
                async for response in reply:
                    channel.put(types.decode_response(response))
                    if not channel.has_room():
                        await channel.room()
        except BaseException as error:  # The reader receives every error.
            channel.end(error)
        else:
            channel.end()

    async def _value(self) -> Any:
        async with self._reply(Operation.INFER) as (reply, types):
            assert reply.first is not None
            return types.decode_response(reply.first)

    @asynccontextmanager
    async def _reply(self, operation: Operation) -> AsyncIterator[tuple[Reply, ModelTypes]]:
        """Open the reply of the other model. Raises ValueError for errors that are the caller's fault."""
        models_var.set(None)  # The other model sets its own if it calls any.
        models = self._models
        try:
            _, types = await models.calling.reach(self._name)
            call = await self._call(operation, types)
            # The model may have been replaced while the arguments were prepared.
            callee, types = await models.calling.reach(self._name)
            models.add_call(call)
            try:
                handler = release_call_values(callee.handler) if hasattr(call, "values") else callee.handler
                async with await handler(call) as reply:
                    yield reply, types
            finally:
                models.remove_call(call)
        except (InvalidRequest, NotFound, Unsupported) as error:
            raise ValueError(f"model {self._name}: {error.message}") from error

    async def _call(self, operation: Operation, types: ModelTypes) -> Call:
        outer = self._models.call
        arguments = types.check(types.bind_arguments(self._values, self._arguments))
        prepared = await types.prepare(arguments, {})
        identify(prepared.request, outer.headers)
        call = Call(
            operation,
            self._name,
            None,
            prepared.request,
            outer.headers,
            prepared.more,
            outer.deadline,
            asyncio.current_task(),
            outer.priority,
            outer.principal,
            CALL_OF_MODEL,
        )
        if hasattr(outer, "values"):
            inherit_values(call, outer)
        return call


async def _next(items: AsyncGenerator[Any]) -> Any:
    return await anext(items, _END)

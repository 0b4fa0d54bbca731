"""Calls of other models by the code of one: as a client's, without a door, and within the caller's own call."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from ...clients.model_types import ModelTypes, types_of_function, types_of_metadata
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
from .limits import settled

T = TypeVar("T")

AHEAD = 8
"""Items that a model may be ahead of the one that reads its stream."""

_END = object()


def calls_others(model: Pipeline, edges: CallEdges) -> Pipeline:
    """Let a model call those that its settings name. Raises ModelLoadFailed for a way in a circle."""
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
    """Gives each call of a model the models that it may call, and ends what it has called when it ends."""

    def __init__(self, inner: Handler, name: str, callees: tuple[str, ...], edges: CallEdges) -> None:
        self._inner = inner
        self.name = name
        self.callees = callees
        self.loop = asyncio.get_running_loop()
        self._edges = edges
        self._types: WeakKeyDictionary[Execution, ModelTypes] = WeakKeyDictionary()

    async def __call__(self, call: Call) -> Reply:
        models = ModelsOfCall(self, call)
        models_var.set(models)  # stays: the code of a stream runs in this context until its end
        try:
            reply = await self._inner(call)
        except BaseException:  # a cancelled call too
            models.end()
            raise
        if reply.single:
            models.end()
            return reply
        return reply.watch(AtEnd(lambda _: models.end()))

    async def reach(self, name: str) -> tuple[Callee, ModelTypes]:
        """A model and its types, which are read anew after a load."""
        callee = await self._edges.reach(name)
        types = self._types.get(callee.execution)
        if types is None:
            types = self._types[callee.execution] = await _types_of(name, callee)
        return callee, types


async def _types_of(name: str, callee: Callee) -> ModelTypes:
    function = (
        None if callee.app is None else callee.app.functions.get((name, callee.execution.settings.version))
    )
    if function is not None:
        return types_of_function(function)
    return types_of_metadata(await callee.execution.metadata())


class ModelsOfCall:
    """What model code calls others by, in one of its calls: an `OtherModels`."""

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
                f'model {calling.name} may not call "{name}": its setting calls names {", ".join(calling.callees)}'
            )
        return partial(CallOfModel, self, name)

    def begin(self, call: Call) -> None:
        if self._running is None:
            raise RuntimeError(f"a call of {self.calling.name} has ended, so it calls {call.model} no more")
        self._running.add(call)

    def ended(self, call: Call) -> None:
        if self._running is not None:
            self._running.discard(call)

    def end(self) -> None:
        """End what still runs for this call."""
        running, self._running = self._running or (), None
        for call in running:
            call.end(Abandoned())

    async def here(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of work in a task of its own: its code must not change the context of this one."""
        loop = self.calling.loop
        if asyncio.get_running_loop() is loop:
            return await loop.create_task(work)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """The same for a thread. Raises TypeError on an event loop, which would wait for itself."""
        with suppress(RuntimeError):  # there is none in a thread
            asyncio.get_running_loop()
            work.close()
            raise TypeError("a coroutine calls models with `await` and `async for`")
        return asyncio.run_coroutine_threadsafe(work, self.calling.loop).result()


class CallOfModel:
    """One call of another model: a `ModelCall`."""

    def __init__(self, models: ModelsOfCall, name: str, /, *values: Any, **arguments: Any) -> None:
        self._models = models
        self._name = name
        self._values = values
        self._arguments = arguments

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._models.here(self._value()).__await__()

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
            while (item := await self._models.here(_next(items))) is not _END:
                yield item
        finally:
            await self._models.here(items.aclose())

    async def _items(self) -> AsyncGenerator[Any]:
        """The items of the stream, on the server's loop. The model runs in a task and a context of its own."""
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
                    channel.put(types.value(response))
                    if not channel.has_room():
                        await channel.room()
        except BaseException as error:  # the reader gets every error
            channel.end(error)
        else:
            channel.end()

    async def _value(self) -> Any:
        async with self._reply(Operation.INFER) as (reply, types):
            assert reply.first is not None
            return types.value(reply.first)

    @asynccontextmanager
    async def _reply(self, operation: Operation) -> AsyncIterator[tuple[Reply, ModelTypes]]:
        """The reply of the other model. Raises ValueError for what a client of it would be to blame for."""
        models_var.set(None)  # the other model sets its own, if it calls any
        models = self._models
        try:
            _, types = await models.calling.reach(self._name)
            call = await self._call(operation, types)
            callee, types = await models.calling.reach(self._name)  # arguments may have taken their time
            models.begin(call)
            try:
                handler = settled(callee.handler) if hasattr(call, "values") else callee.handler
                async with await handler(call) as reply:
                    yield reply, types
            finally:
                models.ended(call)
        except (InvalidRequest, NotFound, Unsupported) as error:
            raise ValueError(f"model {self._name}: {error.message}") from error

    async def _call(self, operation: Operation, types: ModelTypes) -> Call:
        outer = self._models.call
        arguments = types.checked(types.named(self._values, self._arguments))
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

"""The idea of the server without a server: a call opens a reply, through a chain of handlers that is built once.

The names are those of inferstream/dataplane. docs/architecture/idea.md explains the output.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import NamedTuple, Self

ENDS: Counter[str] = Counter()
Model = Callable[[str], AsyncGenerator[str, None]]
End = Callable[[BaseException | None], None]


class Call(NamedTuple):
    text: str
    seconds: float | None = None


class Reply:
    """The first response, and the rest. Leaving it closes the model, then tells each watcher the end."""

    def __init__(self, first: str, rest: AsyncGenerator[str, None]) -> None:
        self.first = first
        self._rest = rest
        self._ends: list[End] = []
        self.until: float | None = None

    def watch(self, end: End) -> Self:
        self._ends.append(end)
        return self

    async def __aiter__(self) -> AsyncIterator[str]:
        response: str | None = self.first
        while response is not None:
            yield response
            async with asyncio.timeout_at(self.until):
                response = await anext(self._rest, None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        await self._rest.aclose()
        for end in self._ends:
            end(error)


Handler = Callable[[Call], Awaitable[Reply]]


def local(model: Model) -> Handler:
    """The innermost handler: runs the model up to its first response."""

    async def run(call: Call) -> Reply:
        rest = model(call.text)
        return Reply(await anext(rest), rest)

    return run


async def watched(inner: Handler, call: Call, end: End) -> Reply:
    """The reply to a call, whose end is told to `end`, also where there is no first response."""
    try:
        reply = await inner(call)
    except BaseException as error:
        end(error)
        raise
    return reply.watch(end)


def limits(inner: Handler, slots: int = 1) -> Handler:
    """As many calls at once as the model has slots. One more is refused."""
    running = 0

    def ended(_: BaseException | None) -> None:
        nonlocal running
        running -= 1

    async def limited(call: Call) -> Reply:
        nonlocal running
        if running == slots:
            raise OverflowError("the queue is full")
        running += 1
        return await watched(inner, call, ended)

    return limited


def deadline(inner: Handler) -> Handler:
    """One time limit for the first response and for the rest."""

    async def timed(call: Call) -> Reply:
        async with asyncio.timeout(call.seconds) as timer:
            reply = await inner(call)
        reply.until = timer.when()
        return reply

    return timed


def metrics(inner: Handler) -> Handler:
    """Counts each call once, by how it ended, refusals included."""

    def ended(error: BaseException | None) -> None:
        ENDS[type(error).__name__ if error else "ok"] += 1

    return lambda call: watched(inner, call, ended)


STAGES = (limits, deadline, metrics)  # from the inside out


async def letters(text: str) -> AsyncGenerator[str, None]:
    try:
        for letter in text:
            yield letter
            await asyncio.sleep(0.2 if letter == "." else 0)
    finally:
        print("  the model is closed")


async def door(model: Handler, call: Call, most: int = 100) -> None:
    """What a transport does: an error before the first response is a status, a later one an event."""
    at = "status"
    try:
        async with await model(call) as reply:
            at = "event"
            async for response in reply:
                print(f"{call.text}: {response}")
                if (most := most - 1) == 0:
                    raise ConnectionError  # the client has left
    except Exception as error:
        print(f"{call.text}: {at} {type(error).__name__}")


async def main() -> None:
    model = local(letters)
    for stage in STAGES:
        model = stage(model)
    await door(model, Call("ab"))
    await door(model, Call("c.d", seconds=0.05))
    await door(model, Call("ef"), most=1)
    async with await model(Call("g")):
        await door(model, Call("h"))
    print(dict(ENDS))


asyncio.run(main())

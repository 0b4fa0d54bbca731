"""The contract of a reply: one first, the rest, and exactly one end, however it ends."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from inferstream.dataplane.reply import AtEnd, Reply, StreamReply, Watcher
from inferstream.errors import Abandoned, Cancelled, DeadlineExceeded
from inferstream.types import InferenceResponse


def response(i: int) -> InferenceResponse:
    return InferenceResponse(model_name=str(i), outputs=[])


class Source:
    """A generator of responses that notes when its `finally` has run."""

    def __init__(self, count: int, fail: Exception | None = None, pause: float = 0) -> None:
        self.finished = False
        self._count, self._fail, self._pause = count, fail, pause

    async def responses(self):
        try:
            for i in range(1, self._count):
                await asyncio.sleep(self._pause)
                yield response(i)
            if self._fail is not None:
                raise self._fail
        finally:
            self.finished = True


class Watched(Watcher):
    """Watches the stream of a source."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.items: list[str] = []
        self.ends: list[BaseException | None] = []
        self.reply = StreamReply(response(0), source.responses()).watch(self)

    def item(self, response: InferenceResponse) -> None:
        assert not self.ends
        self.items.append(response.model_name)

    def end(self, error: BaseException | None) -> None:
        assert self.source.finished or len(self.items) == 1, "the model's finally comes first"
        self.ends.append(error)


class Ends(Watcher):
    """Wants no items."""

    def __init__(self, log: list[tuple[str, object]], name: str = "") -> None:
        self.log, self.name = log, name

    def end(self, error: BaseException | None) -> None:
        self.log.append((f"{self.name}end", error))


class Everything(Ends):
    def item(self, response: InferenceResponse) -> None:
        self.log.append((f"{self.name}item", response.model_name))


async def read(reply: Reply, at_most: int = 99) -> list[str]:
    found = []
    async with reply:
        async for item in reply:
            found.append(item.model_name)
            if len(found) == at_most:
                break
    return found


async def test_reply_is_read_to_its_end() -> None:
    watched = Watched(Source(3))
    assert await read(watched.reply) == ["0", "1", "2"]
    assert watched.items == ["0", "1", "2"]
    assert watched.ends == [None]


async def test_early_break_counts_as_abandoned() -> None:
    watched = Watched(Source(99))
    assert await read(watched.reply, 2) == ["0", "1"]
    assert watched.source.finished
    assert [type(end) for end in watched.ends] == [Abandoned]


async def test_error_reaches_reader_and_watcher() -> None:
    watched = Watched(Source(2, fail=ValueError("x")))
    with pytest.raises(ValueError, match="x"):
        await read(watched.reply)
    assert [type(end) for end in watched.ends] == [ValueError]


async def test_cancelled_reader_closes_the_model() -> None:
    watched = Watched(Source(99, pause=60))
    reading = asyncio.create_task(read(watched.reply))
    while not watched.reply._waiting:
        await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert watched.source.finished
    assert len(watched.ends) == 1


async def test_external_failure_while_waiting() -> None:
    watched = Watched(Source(99, pause=60))
    reading = asyncio.create_task(read(watched.reply))
    while not watched.reply._waiting:
        await asyncio.sleep(0)
    watched.reply.end(DeadlineExceeded())
    with pytest.raises(DeadlineExceeded):
        await reading
    assert watched.source.finished
    assert [type(end) for end in watched.ends] == [DeadlineExceeded]


async def test_external_failure_between_items() -> None:
    watched = Watched(Source(99))
    with pytest.raises(DeadlineExceeded):
        async with watched.reply as reply:
            async for _ in reply:
                reply.end(DeadlineExceeded())
    assert len(watched.ends) == 1


async def test_unread_reply_is_closed() -> None:
    watched = Watched(Source(5))
    async with watched.reply:
        pass
    assert len(watched.ends) == 1


async def test_unary_reply_has_already_ended() -> None:
    log: list[tuple[str, object]] = []
    reply = Reply(response(0)).watch(Everything(log)).watch(Ends(log, "other "))
    assert log == [("item", "0"), ("end", None), ("other end", None)]
    assert reply.single
    assert await read(reply) == ["0"]
    assert len(log) == 3


async def test_empty_stream() -> None:
    log: list[tuple[str, object]] = []
    reply = StreamReply(None, Source(1).responses()).watch(Everything(log))
    assert await read(reply) == []
    assert log == [("end", None)]


async def test_watchers_see_items_in_order_and_ends_in_reverse() -> None:
    log: list[tuple[str, object]] = []
    reply = StreamReply(response(0), Source(3).responses())
    for watcher in (Everything(log, "a "), Ends(log, "b "), Everything(log, "c "), Everything(log, "d ")):
        reply.watch(watcher)
    seen: list[list[tuple[str, object]]] = []
    async with reply:
        async for _ in reply:
            seen.append(list(log))
            log.clear()
        assert log == [("d end", None), ("c end", None), ("b end", None), ("a end", None)]
    assert len(log) == 4, "leaving the block after the end ends nothing again"
    assert seen == [[(f"{name} item", str(i)) for name in "acd"] for i in range(3)]


async def test_late_watcher_sees_only_the_end() -> None:
    log: list[tuple[str, object]] = []
    reply = StreamReply(response(0), Source(2).responses())
    async with reply:
        async for _ in reply:
            pass
    reply.watch(Everything(log))
    assert log == [("end", None)]
    assert reply.first is None, "a stream may be long, and its first response large"


def test_only_watchers_overriding_item_receive_items() -> None:
    class Inherits(Everything):
        pass

    assert [kind.sees_items for kind in (Watcher, Ends, Everything, Inherits)] == [False, False, True, True]


async def test_watcher_may_end_the_reply_at_an_item() -> None:
    log: list[tuple[str, object]] = []
    limit = DeadlineExceeded()

    class Stops(Watcher):
        def item(self, response: InferenceResponse) -> None:
            if response.model_name == "1":
                reply.end(limit)

    source = Source(99)
    reply = StreamReply(response(0), source.responses()).watch(Ends(log)).watch(Stops())
    found = []
    with pytest.raises(DeadlineExceeded):
        async with reply:
            async for item in reply:
                found.append(item.model_name)
    assert found == ["0", "1"]
    assert source.finished
    assert log == [("end", limit)]


async def test_reply_ends_while_its_reader_is_elsewhere() -> None:
    """The model's `finally` runs at once, and the reader gets the error at its next step."""
    closed = asyncio.Event()

    async def rest() -> AsyncIterator[InferenceResponse]:
        try:
            while True:
                yield InferenceResponse(model_name="m", outputs=[])
        finally:
            closed.set()

    ends: list[BaseException | None] = []
    async with StreamReply(None, rest()).watch(AtEnd(ends.append)) as reply:
        await anext(reply)
        error = Cancelled()
        reply.end(error)
        await closed.wait()
        await asyncio.sleep(0)
        assert closed.is_set()
        assert ends == [error]
        with pytest.raises(Cancelled):
            await anext(reply)
        with pytest.raises(StopAsyncIteration):
            await anext(reply)
    assert ends == [error]


async def swallowing(goes_on: bool) -> AsyncIterator[InferenceResponse]:
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        if not goes_on:
            return
    while True:
        yield response(1)


@pytest.mark.parametrize("goes_on", [True, False])
@pytest.mark.parametrize(
    ("how", "expected"),
    [("end", DeadlineExceeded), ("cancel", asyncio.CancelledError), ("both", asyncio.CancelledError)],
)
async def test_model_ignoring_cancellation_does_not_succeed(
    goes_on: bool, how: str, expected: type[BaseException]
) -> None:
    ends: list[BaseException | None] = []
    reply = StreamReply(None, swallowing(goes_on)).watch(AtEnd(ends.append))
    reading = asyncio.create_task(read(reply))
    while not reply._waiting:
        await asyncio.sleep(0)
    if how != "cancel":
        reply.end(DeadlineExceeded())
    if how != "end":
        reading.cancel()
    with pytest.raises(expected):
        await reading
    assert [type(end) for end in ends] == [expected]
    assert reading.cancelling() == (how != "end")


async def test_reader_cancellation_at_the_end_is_not_lost() -> None:
    watched = Watched(Source(99, pause=60))
    reading = asyncio.create_task(read(watched.reply))
    while not watched.reply._waiting:
        await asyncio.sleep(0)
    watched.reply.end(DeadlineExceeded())
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert watched.source.finished
    assert len(watched.ends) == 1


async def changed(given: InferenceResponse) -> InferenceResponse:
    await asyncio.sleep(0)
    if given.model_name == "2":
        raise ValueError("two")
    return response(int(given.model_name) + 10)


async def changed_by_ten(given: InferenceResponse) -> InferenceResponse:
    return response(int(given.model_name) + 10)


async def test_unary_response_may_be_changed() -> None:
    reply = await Reply(response(0)).map(changed)
    assert [each.model_name async for each in reply] == ["10"]


async def test_reader_gets_changed_items_and_watchers_original_ones() -> None:
    watched = Watched(Source(2))
    after = Watched.__new__(Watched)
    after.source, after.items, after.ends = watched.source, [], []
    async with (await watched.reply.map(changed)).watch(after) as reply:
        assert not reply.single
        assert [each.model_name async for each in reply] == ["10", "11"]
    assert watched.items == after.items == ["0", "1"]
    assert watched.ends == after.ends == [None]


async def test_first_item_is_changed_before_headers_are_sent() -> None:
    watched = Watched(Source(2))
    reply = await watched.reply.map(changed)
    assert reply.first is not None
    assert reply.first.model_name == "10"
    async with reply:
        assert [each.model_name async for each in reply] == ["10", "11"]
    assert reply.first is None


async def test_failing_change_of_first_item_closes_the_stream() -> None:
    watched = Watched(Source(2))
    watched.reply.first = response(2)
    with pytest.raises(ValueError, match="two"):
        await watched.reply.map(changed)
    assert [str(error) for error in watched.ends] == ["two"]


@pytest.mark.parametrize("single", [True, False])
async def test_changes_are_chained(single: bool) -> None:
    async def doubled(given: InferenceResponse) -> InferenceResponse:
        return response(2 * int(given.model_name))

    watched = Watched(Source(3))
    reply = Reply(response(0)) if single else watched.reply
    for function in (changed_by_ten, doubled, changed_by_ten):
        reply = await reply.map(function)
    async with reply:
        found = [each.model_name async for each in reply]
    assert found == ["30", "32", "34"][: 1 if single else 3]
    assert single or watched.items == ["0", "1", "2"]
    assert single or (watched.ends == [None] and watched.source.finished)


async def test_changed_stream_may_be_ended() -> None:
    watched = Watched(Source(99, pause=60))
    reply = await watched.reply.map(changed)
    reading = asyncio.create_task(read(reply))
    while not watched.reply._waiting:
        await asyncio.sleep(0)
    reply.end(DeadlineExceeded())
    with pytest.raises(DeadlineExceeded):
        await reading
    assert watched.source.finished
    assert len(watched.ends) == 1


async def test_stream_ends_with_error_of_a_change() -> None:
    watched = Watched(Source(4))
    found = []
    with pytest.raises(ValueError, match="two"):
        async with await watched.reply.map(changed) as reply:
            async for each in reply:
                found.append(each.model_name)
    assert found == ["10", "11"]
    assert [str(error) for error in watched.ends] == ["two"]
    assert watched.source.finished


class Passed:
    """The responses of an inner reply after the first, as a stage passes them on."""

    def __init__(self, inner: Reply) -> None:
        self._inner = inner
        self._open = False

    async def __anext__(self) -> InferenceResponse:
        if not self._open:
            self._open = True
            await self._inner.__aenter__()
            await anext(aiter(self._inner))
        return await anext(aiter(self._inner))

    async def aclose(self) -> None:
        await self._inner.aclose(Abandoned())


@pytest.mark.parametrize("read", [1, 2, 4])
async def test_stage_replaces_a_stream(read: int) -> None:
    """Both replies have watchers, which end once: as the inner stream ends, or with the reader that leaves."""
    inner = Watched(Source(3))
    ends: list[BaseException | None] = []
    found = []
    async with Reply.stream(response(0), Passed(inner.reply)).watch(AtEnd(ends.append)) as reply:
        async for each in reply:
            found.append(each.model_name)
            if len(found) == read:
                break
    assert found == ["0", "1", "2"][:read]
    assert inner.items == found
    left = read < 4
    assert [isinstance(each, Abandoned) for each in ends] == [left]
    assert [isinstance(each, Abandoned) for each in inner.ends] == [left]
    assert inner.source.finished or read == 1  # a generator that has not begun has no `finally` to run

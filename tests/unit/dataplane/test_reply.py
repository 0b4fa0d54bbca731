"""The contract of a reply: one first, the rest, and exactly one end, however it ends."""

import asyncio

import pytest

from inferstream.dataplane.reply import Reply, StreamReply
from inferstream.errors import Abandoned, DeadlineExceeded
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


class Watched:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.later_items = 0
        self.ends: list[BaseException | None] = []
        self.reply = StreamReply(response(0), source.responses()).watch(self._end)
        self.reply.count(self)

    def passed(self) -> None:
        self.later_items += 1

    def _end(self, error: BaseException | None) -> None:
        assert self.source.finished or not self.later_items, "the model's finally comes first"
        self.ends.append(error)


async def read(reply: Reply, at_most: int = 99) -> list[str]:
    found = []
    async with reply:
        async for item in reply:
            found.append(item.model_name)
            if len(found) == at_most:
                break
    return found


async def test_a_full_run() -> None:
    watched = Watched(Source(3))
    assert await read(watched.reply) == ["0", "1", "2"]
    assert watched.later_items == 2
    assert watched.ends == [None]


async def test_an_early_break_is_abandoned() -> None:
    watched = Watched(Source(99))
    assert await read(watched.reply, 2) == ["0", "1"]
    assert watched.source.finished
    assert [type(end) for end in watched.ends] == [Abandoned]


async def test_an_error_reaches_reader_and_watcher() -> None:
    watched = Watched(Source(2, fail=ValueError("x")))
    with pytest.raises(ValueError, match="x"):
        await read(watched.reply)
    assert [type(end) for end in watched.ends] == [ValueError]


async def test_a_cancelled_reader_closes_the_model() -> None:
    watched = Watched(Source(99, pause=60))
    reading = asyncio.create_task(read(watched.reply))
    while not watched.reply._waiting:
        await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert watched.source.finished
    assert len(watched.ends) == 1


async def test_a_failure_from_outside_while_waiting() -> None:
    watched = Watched(Source(99, pause=60))
    reading = asyncio.create_task(read(watched.reply))
    while not watched.reply._waiting:
        await asyncio.sleep(0)
    watched.reply.fail(DeadlineExceeded())
    with pytest.raises(DeadlineExceeded):
        await reading
    assert watched.source.finished
    assert [type(end) for end in watched.ends] == [DeadlineExceeded]


async def test_a_failure_from_outside_between_items() -> None:
    watched = Watched(Source(99))
    with pytest.raises(DeadlineExceeded):
        async with watched.reply as reply:
            async for _ in reply:
                reply.fail(DeadlineExceeded())
    assert len(watched.ends) == 1


async def test_a_reply_nobody_reads_is_closed_all_the_same() -> None:
    watched = Watched(Source(5))
    async with watched.reply:
        pass
    assert len(watched.ends) == 1


async def test_a_single_answer_has_ended_already() -> None:
    ends: list[BaseException | None] = []
    reply = Reply(response(0)).watch(ends.append)
    assert ends == [None]
    assert reply.single
    assert await read(reply) == ["0"]


async def test_a_stream_of_nothing() -> None:
    ends: list[BaseException | None] = []
    reply = StreamReply(None, Source(1).responses()).watch(ends.append)
    assert await read(reply) == []
    assert ends == [None]

"""Events, questions and their answers between two ends of a link."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from inferstream.errors import InvalidRequest, ModelError, WorkerLost
from inferstream.processes.endpoint import Endpoint, Handlers
from inferstream.processes.frames import Answer, Frame, Logged, Query, Registered


class Double(Query[int], tag=101):
    of: int


class Refuse(Query[None], tag=102):
    how: str


class Pair(Query[tuple[int, str]], tag=103):
    """The answer breaks its type."""


class Wire:
    """A link to another end in this process. What is sent arrives when the event loop runs."""

    def __init__(self, decoder: Any, received: Callable[[Frame], None], lost: object) -> None:
        self._decode = decoder.decode
        self._received = received
        self.other: Wire
        self.left: list[Frame] = []
        self.closed = False

    def send(self, frame: Frame) -> int:
        data = msgspec.msgpack.encode(frame)
        asyncio.get_running_loop().call_soon(self.other.arrive, data)
        return len(data)

    def arrive(self, data: bytes) -> None:
        if not self.closed:
            self._received(self._decode(data))

    def drain(self) -> None:
        for frame in self.left:
            self.arrive(msgspec.msgpack.encode(frame))

    def close(self) -> None:
        self.closed = True


def joined(handlers: Handlers, others: Handlers | None = None) -> tuple[Endpoint, Endpoint]:
    """Who asks, and who has `handlers`."""
    asking = Endpoint(Wire, others or {}, lambda: None)  # type: ignore[arg-type]
    answering = Endpoint(Wire, handlers, lambda: None)  # type: ignore[arg-type]
    asking.link.other, answering.link.other = answering.link, asking.link  # type: ignore[attr-defined]
    return asking, answering


async def double(question: Double) -> int:
    return 2 * question.of


async def refuse(question: Refuse) -> None:
    if question.how == "model":
        raise ModelError("no", 418) from KeyError("why")
    if question.how == "invalid":
        raise InvalidRequest("wrong", [{"loc": "x"}])
    raise RuntimeError("a secret")


async def test_each_request_gets_its_response_in_any_order() -> None:
    may = asyncio.Event()

    async def slowly(question: Double) -> int:
        if question.of == 1:
            await may.wait()
        return await double(question)

    asking, _ = joined({Double: slowly})
    first, second = asking.ask(Double(1)), asking.ask(Double(2))
    assert await second == 4
    assert not first.done()
    may.set()
    assert await first == 2


async def test_handler_errors_are_raised_at_the_caller() -> None:
    asking, _ = joined({Refuse: refuse})
    with pytest.raises(ModelError, match="no") as model:
        await asking.ask(Refuse("model"))
    assert model.value.status_code == 418
    assert "why" in str(model.value.__cause__)
    with pytest.raises(InvalidRequest) as invalid:
        await asking.ask(Refuse("invalid"))
    assert invalid.value.detail == [{"loc": "x"}]


async def test_other_errors_are_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    asking, _ = joined({Refuse: refuse})
    with pytest.raises(Exception, match="its log says why") as error:
        await asking.ask(Refuse("otherwise"))
    assert "secret" not in str(error.value)
    assert "a secret" in caplog.text


async def test_requests_and_events_start_in_order() -> None:
    order: list[object] = []

    async def noted(question: Double) -> int:
        order.append(question.of)
        return 0

    asking, _ = joined({Double: noted, Registered: lambda frame: order.append(frame.name)})
    asking.send(Registered("before", ""))
    await asyncio.gather(*(asking.ask(Double(number)) for number in range(3)))
    assert order == ["before", 0, 1, 2]


async def test_duplicate_or_unawaited_response_is_dropped() -> None:
    asking, answering = joined({Double: double})
    left = asking.ask(Double(1))
    left.cancel()
    answering.send(Answer(1, 2))
    answering.send(Answer(7, 2))
    assert await asking.ask(Double(2)) == 4
    answering.send(Answer(2, 5))
    await asyncio.sleep(0.01)
    assert not asking._waiting


@pytest.mark.parametrize("value", [1, [1], ["x", 1], [1, "x", 2], None])
async def test_response_of_wrong_type_is_refused(value: object) -> None:
    asking, _ = joined({})
    asking.ask(Pair())
    with pytest.raises(msgspec.ValidationError):
        asking.link.arrive(msgspec.msgpack.encode(Answer(1, value)))  # type: ignore[attr-defined]


async def test_frame_without_handler_is_refused() -> None:
    _, answering = joined({Double: double})
    for frame in (Refuse("model"), Logged("m", "1", {})):
        with pytest.raises(msgspec.ValidationError):
            answering.link.arrive(msgspec.msgpack.encode(frame))  # type: ignore[attr-defined]


async def test_pending_requests_fail_at_the_end_unless_already_answered() -> None:
    asking, _ = joined({Double: double})
    known, *lost = [asking.ask(Double(number)) for number in range(3)]
    asking.link.left = [Answer(1, 7)]  # type: ignore[attr-defined]
    asking.end(WorkerLost("gone"))
    assert await known == 7
    for answer in (*lost, asking.ask(Double(1))):
        with pytest.raises(WorkerLost, match="gone"):
            await answer
    await asyncio.sleep(0)
    assert not asking._waiting

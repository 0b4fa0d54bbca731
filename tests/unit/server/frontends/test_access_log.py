"""Records of the access log on their way to the front end of their reader."""

import asyncio
from typing import Any

import pytest

from inferstream.server.frontends import access_log, frames
from inferstream.server.frontends.access_log import RecordSender, SharedLog
from inferstream.telemetry.access import AccessLines, Subscribers
from tests.unit.telemetry.test_console import record


async def test_access_records_are_batched_and_drops_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_log, "MAX_RECORDS", 2)
    monkeypatch.setattr(access_log, "GATHERING", 0.001)
    sent: asyncio.Queue[frames.Records] = asyncio.Queue()
    sender = RecordSender(sent.put_nowait)
    for model in "abc":
        sender.put(record(model=model))
    async with asyncio.timeout(10):
        first = await sent.get()
        assert ([each.model for each in first.records], first.dropped) == (["a", "b"], 1)
        sender.put(record(model="d"))
        second = await sent.get()
        assert ([each.model for each in second.records], second.dropped) == (["d"], 0)


class FrontEnd:
    """Keeps what the supervisor sends."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def send(self, frame: Any) -> None:
        self.sent.append(frame)

    @property
    def sends(self) -> list[bool]:
        """Whether it was told to send its records, each time."""
        return [frame.on for frame in self.sent if isinstance(frame, frames.SendRecords)]


class Supervisor:
    def __init__(self) -> None:
        self.lines = AccessLines()
        self.subscribers = Subscribers(self.lines)


async def test_processes_send_records_while_another_has_a_reader() -> None:
    supervisor, (one, two) = Supervisor(), (FrontEnd(), FrontEnd())
    log = SharedLog(supervisor, [one, two])  # type: ignore[arg-type, list-item]
    log.set_subscription(one, True)  # type: ignore[arg-type]
    assert (one.sends, two.sends, supervisor.lines.on) == ([], [True], True)
    log.set_subscription(two, True)  # type: ignore[arg-type]
    assert (one.sends, two.sends) == ([True], [True])
    log.set_subscription(one, False)  # type: ignore[arg-type]
    assert (one.sends, two.sends, supervisor.lines.on) == ([True], [True, False], True)
    log.forget(two)  # type: ignore[arg-type]
    assert (one.sends, supervisor.lines.on) == ([True, False], False)


async def test_records_reach_readers_in_other_front_ends() -> None:
    supervisor, (one, two) = Supervisor(), (FrontEnd(), FrontEnd())
    log = SharedLog(supervisor, [one, two])  # type: ignore[arg-type, list-item]
    for who in (one, two):
        log.set_subscription(who, True)  # type: ignore[arg-type]
    here = supervisor.subscribers.open(None, errors=False)
    passed = frames.Records([record(model="m")], 2)
    log.relay(one, passed)  # type: ignore[arg-type]
    assert (passed in one.sent, passed in two.sent) == (False, True)
    records, dropped = await here.read(1.0)
    assert ([each.model for each in records], dropped) == (["m"], 2)


async def test_new_front_end_is_subscribed_immediately() -> None:
    supervisor, front_ends = Supervisor(), [FrontEnd()]
    log = SharedLog(supervisor, front_ends)  # type: ignore[arg-type]
    log.set_subscription(front_ends[0], True)  # type: ignore[arg-type]
    front_ends.append(FrontEnd())
    log.update()
    log.update()
    assert front_ends[1].sends == [True]

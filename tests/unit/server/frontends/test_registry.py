"""The models of a front end follow the supervisor's frames."""

import asyncio
from typing import Any

import pytest

from inferstream.dataplane.access import Authority
from inferstream.dataplane.peers import Peers
from inferstream.errors import ModelLoadFailed, ModelNotReady
from inferstream.plugins.triton.regions import ListRegions
from inferstream.server.frontends import frames
from inferstream.server.frontends.registry import FrontEndRegistry
from inferstream.settings import Settings
from inferstream.telemetry.metrics import Meters


class Supervisor:
    """Answers a front end, and keeps what it sends."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.sent: list[Any] = []

    async def ask(self, question: Any) -> Any:
        self.asked.append(question)
        return (
            b'[{"name":"m","state":"READY","reason":""}]' if isinstance(question, frames.ListModels) else True
        )


def registry() -> tuple[FrontEndRegistry, Supervisor]:
    supervisor = Supervisor()
    made = FrontEndRegistry(
        Settings(), Authority(Settings()), Meters(), None, supervisor.ask, supervisor.sent.append
    )
    return made, supervisor


async def test_supervisor_reports_readiness_and_failed_models() -> None:
    front_end, _ = registry()
    assert not front_end.ready
    await front_end.store_states(frames.Tell(True, [("m", None, "LOADING")], False))
    assert front_end.ready
    with pytest.raises(ModelNotReady):
        front_end.get("m")
    await front_end.store_states(frames.Tell(False, [], False))
    assert not front_end.ready


async def test_repository_calls_are_forwarded_to_the_supervisor() -> None:
    front_end, supervisor = registry()
    await front_end.load("m")
    assert await front_end.unload("m")
    assert [item.name for item in await front_end.index(True)] == ["m"]
    assert [type(question) for question in supervisor.asked] == [
        frames.LoadVersions,
        frames.UnloadVersions,
        frames.ListModels,
    ]


async def test_subscribers_and_records_are_forwarded_to_the_supervisor() -> None:
    front_end, supervisor = registry()
    subscriber = front_end.subscribers.open(None, errors=False)
    front_end.subscribers.close(subscriber)
    assert [(type(frame), frame.on) for frame in supervisor.sent] == [
        (frames.Subscribed, True),
        (frames.Subscribed, False),
    ]
    front_end.send_records(frames.SendRecords(True))
    assert front_end.lines.on
    front_end.send_records(frames.SendRecords(False))
    assert not front_end.lines.on


async def test_failed_load_is_reported_on_prepare_and_serve() -> None:
    async def fail() -> Any:
        raise ModelLoadFailed("no weights")

    front_end, _ = registry()
    with pytest.raises(ModelLoadFailed, match="no weights"):
        await front_end.prepare(1, fail())
    with pytest.raises(ModelLoadFailed, match="no weights"):
        await front_end.serve(1)


async def test_withdrawn_load_is_cleaned_up() -> None:
    front_end, _ = registry()
    begun = asyncio.Event()

    async def hang() -> Any:
        begun.set()
        await asyncio.Event().wait()

    preparing = asyncio.create_task(front_end.prepare(1, hang()))
    async with asyncio.timeout(10):
        await begun.wait()
        released = asyncio.create_task(front_end.wait_for_release(1))
        await asyncio.sleep(0)
        assert not released.done()
        await front_end.withdraw(1)
        await asyncio.gather(preparing, released)
    await front_end.wait_for_release(2)


async def test_front_end_responds_before_its_first_request() -> None:
    peers, settings, supervisor = Peers(1, 2), Settings(), Supervisor()
    FrontEndRegistry(settings, Authority(settings), Meters(), peers, supervisor.ask, supervisor.sent.append)
    assert await peers.answer(ListRegions()) == []

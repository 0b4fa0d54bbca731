"""The sums of the load of several processes, and how fresh a report is."""

import asyncio
from typing import Any

import pytest

from inferstream import App, MLModel
from inferstream.dataplane import load
from inferstream.dataplane.load import CountLoad, Loads, ModelLoad, ProcessLoad, load_of
from inferstream.dataplane.peers import Peers
from inferstream.dataplane.registry import Registry
from inferstream.dataplane.server_parts import ServerParts
from inferstream.server.application import Application
from inferstream.settings import Settings
from inferstream.telemetry.metrics import Meters
from inferstream.types import InferenceRequest, InferenceResponse


class Nothing:
    """A registry without models."""

    def items(self) -> list[object]:
        return []


def loads_of(peers: Peers) -> Loads:
    models: Any = Nothing()
    return Loads(ServerParts(Settings(), Meters(), models, peers))


def loads(*others: ProcessLoad) -> Loads:
    """The loads of a front end without models, beside others."""

    async def ask(front_end: int, question: CountLoad) -> ProcessLoad:
        return others[front_end - 1]

    return loads_of(Peers(0, 1 + len(others), ask))


async def test_the_load_of_a_model_is_that_of_all_processes() -> None:
    first = ProcessLoad([ModelLoad("m", None, 5, 1, 4, 0.25, 1), ModelLoad("n", "2", 1, 0, 8)], 1.5)
    second = ProcessLoad([ModelLoad("m", None, 3, 2, 0, 0.75, 1)], 2.0)
    found = await loads(first, second).current()
    assert found.total == (3, 6, 2.0, 0.5)
    by_name = {model.model: load_of(model) for model in found.models}
    assert by_name == {"m": (3, 5, 2.0, 0.5), "n": (0, 1, 0.125, 0.0)}
    assert found.cpu > 3.5


async def test_no_more_calls_wait_than_there_are() -> None:
    late = ProcessLoad([ModelLoad("m", None, 1, 4, 1)], 0.0)  # the report of a worker is late
    assert (await loads(late).current()).total[:3] == (1, 0, 1.0)


async def test_a_server_without_models_is_idle() -> None:
    assert (await loads().current()).total == (0, 0, 0.0, 0.0)


async def test_a_report_asks_no_front_end_twice_within_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    may = asyncio.Event()

    async def ask(front_end: int, question: CountLoad) -> ProcessLoad:
        asked.append(front_end)
        await may.wait()
        return ProcessLoad([ModelLoad("m", None, 1, 0, 1)], 0.0)

    monkeypatch.setattr(load, "FRESH", 0.0)
    found = loads_of(Peers(0, 2, ask))
    assert found.recent()[0].total.running == found.recent()[0].total.running == 0  # nobody has answered
    may.set()
    assert found._counting is not None
    await found._counting
    await asyncio.sleep(0)
    assert asked == [1]
    latest, before = found.recent()
    assert (latest.total.running, before.total.running) == (1, 0)


async def test_what_has_ended_counts_where_it_is_asked_for() -> None:
    app = App()

    @app.model
    def half(n: int) -> int:
        return 6 // n

    async with Application(app) as application:
        meters = application._backend.registry.get("half").pipeline.meters
        meters.durations["success"].observe(0.1)
        meters.durations["internal"].observe(0.1)
        found = application.models.of(Loads)
        assert isinstance(application._backend.registry, Registry)
        assert (await found.current(ends=True))[2:4] == (2, 1)
        assert (await found.current())[2:4] == (0, 0)


async def test_the_totals_of_one_front_end_are_those_of_the_models_that_have_a_load() -> None:
    app = App()

    @app.model(max_concurrency=2)
    async def busy(n: int) -> int:
        return n

    @app.model
    async def idle(n: int) -> int:
        return n

    async with Application(app) as application:
        found = application.models.of(Loads)
        assert await found.totals() == (0, 0, 0.0, 0.0)
        meters = application._backend.registry.get("busy").pipeline.meters
        meters.in_flight, meters.queue.depth = 3, 1
        assert await found.totals() == (await found.current()).total == (1, 2, 1.5, 0.0)
        meters.in_flight = meters.queue.depth = 0


async def test_the_totals_have_the_cache_of_a_model_without_calls() -> None:
    class Cached(MLModel):
        kv_usage = 0.25

        async def predict(self, payload: InferenceRequest) -> InferenceResponse:
            raise NotImplementedError

    async with Application(Cached) as application:
        assert (await application.models.of(Loads).totals()).kv_usage == 0.25


async def test_the_totals_of_several_front_ends_are_of_all_of_them() -> None:
    other = ProcessLoad([ModelLoad("m", None, 3, 1, 2)], 0.0)
    assert await loads(other).totals() == (1, 2, 1.5, 0.0)

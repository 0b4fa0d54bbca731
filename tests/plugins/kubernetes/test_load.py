"""The sums of the load of several processes, and how fresh a report is."""

import asyncio
from typing import Any

import pytest

from inferstream import App, Application, MLModel, Settings
from inferstream.ext.calls import Caller, Peers, ServerParts
from inferstream.ext.telemetry import Meters
from inferstream.plugins.kubernetes import load
from inferstream.plugins.kubernetes.load import CountLoad, Loads, ModelLoad, ProcessLoad, to_load
from inferstream.types import Headers, InferenceRequest, InferenceResponse

ANYBODY = Caller(Headers([]), "test")


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


async def test_model_load_covers_all_processes() -> None:
    first = ProcessLoad([ModelLoad("m", None, 5, 1, 4, 0.25, 1), ModelLoad("n", "2", 1, 0, 8)], 1.5)
    second = ProcessLoad([ModelLoad("m", None, 3, 2, 0, 0.75, 1)], 2.0)
    found = await loads(first, second).current()
    assert found.total == (3, 6, 2.0, 0.5)
    by_name = {model.model: to_load(model) for model in found.models}
    assert by_name == {"m": (3, 5, 2.0, 0.5), "n": (0, 1, 0.125, 0.0)}
    assert found.cpu > 3.5


async def test_waiting_calls_never_exceed_total() -> None:
    late = ProcessLoad([ModelLoad("m", None, 1, 4, 1)], 0.0)  # the report of a worker is late
    assert (await loads(late).current()).total[:3] == (1, 0, 1.0)


async def test_server_without_models_is_idle() -> None:
    assert (await loads().current()).total == (0, 0, 0.0, 0.0)


async def test_report_queries_front_ends_once_per_interval(monkeypatch: pytest.MonkeyPatch) -> None:
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


async def test_finished_calls_count_if_requested() -> None:
    app = App()

    @app.model
    def half(n: int) -> int:
        return 6 // n

    async with Application(app) as application:
        meters = application.models.admit("half", None, ANYBODY).pipeline.meters
        meters.durations["success"].observe(0.1)
        meters.durations["internal"].observe(0.1)
        found = application.models.of(Loads)
        assert application.loaded == [("half", None)]
        assert (await found.current(ends=True))[2:4] == (2, 1)
        assert (await found.current())[2:4] == (0, 0)


async def test_front_end_totals_cover_models_with_load() -> None:
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
        meters = application.models.admit("busy", None, ANYBODY).pipeline.meters
        meters.in_flight, meters.queue.depth = 3, 1
        assert await found.totals() == (await found.current()).total == (1, 2, 1.5, 0.0)
        meters.in_flight = meters.queue.depth = 0


async def test_totals_include_cache_of_model_without_calls() -> None:
    class Cached(MLModel):
        kv_usage = 0.25

        async def predict(self, payload: InferenceRequest) -> InferenceResponse:
            raise NotImplementedError

    async with Application(Cached) as application:
        assert (await application.models.of(Loads).totals()).kv_usage == 0.25


async def test_totals_cover_all_front_ends() -> None:
    other = ProcessLoad([ModelLoad("m", None, 3, 1, 2)], 0.0)
    assert await loads(other).totals() == (1, 2, 1.5, 0.0)

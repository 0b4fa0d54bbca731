"""The stages of a model: which of them its settings ask for, and what one more has to bring along."""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable
from dataclasses import replace

import pytest

from inferstream import MLModel, ModelSettings
from inferstream.dataplane.access import Authority
from inferstream.dataplane.call import Call, Handler, Operation
from inferstream.dataplane.execution.local import Local
from inferstream.dataplane.pipeline import STAGES, build_pipeline, build_shared_objects
from inferstream.dataplane.registry import Registry
from inferstream.dataplane.reply import Reply
from inferstream.dataplane.serving import ServedModel
from inferstream.dataplane.stages.base import Pipeline, Shared
from inferstream.errors import ModelLoadFailed
from inferstream.extensions.discovery import plugins
from inferstream.extensions.entries import STAGES as JOINING
from inferstream.extensions.entries import arrange
from inferstream.repository import InMemoryRepository
from inferstream.settings import Settings
from inferstream.telemetry.meter_set import MeterSet, counter
from inferstream.telemetry.metrics import Meters
from inferstream.telemetry.model_meters import ModelMeters
from inferstream.telemetry.stages import BatchMeters
from inferstream.types import InferenceRequest, InferenceResponse, RequestInput, State


class Held(MLModel):
    """Answers when it is let."""

    async def predict(self, payload):
        self.running += 1
        self.most = max(self.most, self.running)
        await self.gate.wait()
        self.running -= 1
        return InferenceResponse(model_name="held", outputs=[])


class Streams(MLModel):
    async def predict_stream(self, payloads):
        yield InferenceResponse(model_name="streams", outputs=[])


def built(implementation: type[MLModel], **settings) -> tuple[MLModel, Pipeline, ModelMeters]:
    model = implementation(ModelSettings(implementation=implementation, name="m", **settings))
    pipeline = build_pipeline(Local(model), build_shared_objects(Settings(), Meters()))
    return model, pipeline, pipeline.meters


def test_batching_is_off_by_default() -> None:
    assert BatchMeters not in built(Held)[2].stages
    assert BatchMeters not in built(Held, max_batch_size=1, max_batch_time=1)[2].stages
    assert BatchMeters in built(Held, max_batch_size=2, max_batch_time=1)[2].stages


@pytest.mark.parametrize(
    ("implementation", "settings", "why"),
    [
        (Held, {"max_batch_size": 8}, "no effect without max_batch_time"),
        (Streams, {"max_batch_size": 8, "max_batch_time": 1}, "the model only streams"),
    ],
)
def test_unusable_batching_settings_are_logged(
    implementation: type[MLModel], settings: dict, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert BatchMeters not in built(implementation, **settings)[2].stages
    assert why in caplog.text


async def test_streams_and_batches_share_the_model_slots() -> None:
    model, pipeline, _ = built(Held, max_batch_size=4, max_batch_time=60, max_concurrency=2)
    model.running = model.most = 0
    model.gate = asyncio.Event()

    async def ask(operation: Operation) -> None:
        tensor = RequestInput(name="x", shape=[1], datatype="FP32", data=[1.0])
        call = Call(operation, "m", None, InferenceRequest(id="i", inputs=[tensor]), {})
        async with await pipeline.handler(call) as reply:
            async for _ in reply:
                pass

    asking = [asyncio.create_task(ask(operation)) for operation in Operation for _ in range(4)]
    while model.running < 2:
        await asyncio.sleep(0)
    for _ in range(20):
        await asyncio.sleep(0)
    model.gate.set()
    await asyncio.gather(*asking)
    assert model.most == 2


def test_early_refusal_requires_that_a_full_queue_refuses_every_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def early_refusal(enabled: bool) -> object:
        shared = build_shared_objects(Settings(cache_enabled=enabled), Meters())
        settings = ModelSettings(implementation=Held, name="m", cache_enabled=enabled)
        return build_pipeline(Local(Held(settings)), shared).refuse

    assert early_refusal(False) is not None
    assert early_refusal(True) is None, "a call may be answered from the cache"
    monkeypatch.setattr("inferstream.plugins.otel.stage.build_tracer", lambda parts: object())
    assert early_refusal(False) is None, "a refusal is to be traced"


def test_plugin_stages_have_fixed_positions() -> None:
    core = {stage.__name__: stage for stage in STAGES}
    ours = [(plugin, plugin.load()) for plugin in plugins(JOINING).values() if plugin.ours]
    order = [plugin.name if plugin else stage.__name__ for plugin, stage in arrange(core, ours, "middleware")]
    assert " ".join(order) == (
        "calling compute batching limits sequences failover timing caching shadowing validation cloudevents "
        "record splitting middleware deadline regions live metrics access_log tracing show_errors"
    )


async def test_nothing_is_kept_of_a_retired_model() -> None:
    shared = build_shared_objects(Settings(cache_enabled=True), Meters())
    local = Local(Streams(ModelSettings(implementation=Streams, name="m", cache_enabled=True)))
    pipeline = build_pipeline(local, shared)
    call = Call(Operation.STREAM, "m", None, InferenceRequest(id="i", inputs=[]), {}, priority=5)
    async with await pipeline.handler(call) as reply:
        async for _ in reply:
            pass
    assert shared.store is not None
    while not shared.store._cached:
        await asyncio.sleep(0)
    await ServedModel(local, pipeline).retire(1)
    assert not shared.store._cached


class QuotaMeters(MeterSet):
    """The meters of a stage that nobody but this file knows."""

    seen: int = counter("quota_seen", "Calls seen")


class Quota:
    def __init__(self, inner: Handler, meters: QuotaMeters) -> None:
        self._inner, self._meters = inner, meters

    def __call__(self, call: Call) -> Awaitable[Reply]:
        self._meters.seen += 1
        return self._inner(call)


def quota(model: Pipeline, shared: Shared) -> Pipeline:
    if model.settings.name == "free":
        return model
    return replace(model, handler=Quota(model.handler, model.meters.of(QuotaMeters)))


def broken(model: Pipeline, shared: Shared):
    return "quota"


async def test_additional_stage_adds_meters_and_may_be_off_per_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("inferstream.dataplane.pipeline.STAGES", (*STAGES, quota))
    meters = Meters()
    shared = build_shared_objects(Settings(), meters)
    for name, asked in (("free", 1), ("metered", 2)):
        settings = ModelSettings(implementation=Streams, name=name)
        pipeline = build_pipeline(Local(Streams(settings)), shared)
        assert isinstance(pipeline.handler, Quota) == (name == "metered")
        for _ in range(asked):
            request = InferenceRequest(id="i", inputs=[])
            async with await pipeline.handler(Call(Operation.STREAM, name, None, request, {})):
                pass
    text = meters.exposition().decode()
    assert 'quota_seen_total{model="metered",version=""} 2.0' in text
    assert 'quota_seen_total{model="free"' not in text
    assert 'inferstream_calls_total{end="cancelled",model="free",version=""} 1.0' in text


async def test_stage_returning_no_pipeline_fails_the_load(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("inferstream.dataplane.pipeline.STAGES", (*STAGES, broken))
    unloaded = []

    class Leaves(Streams):
        async def unload(self) -> bool:
            unloaded.append(self.name)
            return True

    async def load(settings: ModelSettings) -> Local:
        return Local(Leaves(settings))

    repository = InMemoryRepository([ModelSettings(implementation=Leaves, name="m")])
    registry = Registry(Settings(), Authority(Settings()), repository, load, Meters())
    await registry.start()
    why = "stage broken of model m returned a str, not a Pipeline"
    assert why in caplog.text
    assert [(item.state, item.reason) for item in await registry.index(False)] == [(State.UNAVAILABLE, why)]
    assert unloaded == ["m"]
    with pytest.raises(ModelLoadFailed, match=why):
        await Registry(Settings(strict=True), Authority(Settings()), repository, load, Meters()).start()


def test_metric_families_have_a_stable_order() -> None:
    def families(enabled: bool) -> list[str]:
        meters = Meters()
        build_shared_objects(Settings(cache_enabled=enabled), meters)
        return [metric.name for metric in meters.collect()]

    batches = ["inferstream_batch_size", "inferstream_batch_wait_seconds", "batch_request_queue"]
    caches = [f"inferstream_cache_{name}" for name in ("lookups", "entries", "bytes", "evicted")]
    steps = [f"inferstream_{name}" for name in ("streams_active", "streams_waiting", "step_size")]
    assert " ".join([*batches, *steps]) in " ".join(families(False))
    assert " ".join([*batches, *caches, *steps]) in " ".join(families(True))


def test_disabled_stages_are_not_imported() -> None:
    code = (
        "import sys, inferstream.dataplane.pipeline; "
        "print([name for name in sys.modules if name.endswith(('stages.batching', 'stages.cache', 'repository.middleware'))])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.strip() == "[]"

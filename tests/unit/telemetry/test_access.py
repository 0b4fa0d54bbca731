"""The stage of the access log exists only while somebody wants records."""

import pytest

from inferstream import InferenceRequest, InferenceResponse, MLModel, testing
from inferstream.dataplane.stages.access_log import AccessLog
from inferstream.errors import ModelNotFound
from inferstream.telemetry import access as module
from inferstream.telemetry.access import AccessLines, AccessRecord, Subscribers
from tests.unit.telemetry.test_console import record


class M(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        return self.encode_response(["x"])


def test_record_round_trips_and_missing_fields_are_empty() -> None:
    told = record(error="why", principal="ann", request_id="r")
    assert AccessRecord.from_fields({"time": told.time, **told.fields()}) == told
    other = AccessRecord.from_fields({"model": "m", "ms": 1.5, "unknown": 1})
    assert (other.model, other.seconds, other.items, other.version) == ("m", 0.0015, 0, "")


async def test_all_models_have_the_stage_while_there_is_a_subscriber() -> None:
    async with testing.run(M) as client:
        registry = client.application._backend.registry
        served = registry.get("M")
        before = served.handler, served.refuse
        assert not isinstance(served.handler, AccessLog)

        subscriber = registry.subscribers.open(None, errors=False)
        assert isinstance(served.handler, AccessLog)
        assert served.refuse is None, "a call that a full queue refuses has a record"
        await client.infer("M", a=1)
        await registry.load("M")
        served = registry.get("M")
        assert isinstance(served.handler, AccessLog)
        await client.infer("M", a=1)
        records, dropped = await subscriber.read(5.0)
        assert [(each.model, each.status, each.items) for each in records] == [("M", "success", 1)] * 2
        assert dropped == 0

        registry.subscribers.close(subscriber)
        assert not isinstance(served.handler, AccessLog)
        assert (served.refuse is None) is (before[1] is None)
        with pytest.raises(ModelNotFound):
            await client.infer("nope", a=1)


async def test_slow_subscriber_loses_records_and_gets_their_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 10)
    lines = AccessLines()
    subscribers = Subscribers(lines)
    slow, failures = subscribers.open(None, errors=False), subscribers.open("add", errors=True)
    for _ in range(25):
        lines.put(record())
    lines.put(record(status="invalid"))
    subscribers.put_foreign([record(model="elsewhere")], 3)
    records, dropped = await slow.read(0.0)
    assert (len(records), dropped) == (10, 16 + 1 + 3)
    records, dropped = await failures.read(0.0)
    assert ([each.status for each in records], dropped) == (["invalid"], 3)
    assert await slow.read(0.0) == ([], 0)
    subscribers.end()
    assert await slow.read(60.0) == ([], 0)


async def test_only_first_and_last_subscriber_change_the_state() -> None:
    lines = AccessLines()
    subscribers = Subscribers(lines)
    changes: list[bool] = []
    subscribers.changed = changes.append
    first, second = subscribers.open(None, errors=False), subscribers.open(None, errors=False)
    subscribers.close(first)
    assert lines.on
    subscribers.close(second)
    assert not lines.on
    assert changes == [True, False]
    for _ in range(module.MAX_SUBSCRIBERS):
        assert not subscribers.full
        subscribers.open(None, errors=False)
    assert subscribers.full

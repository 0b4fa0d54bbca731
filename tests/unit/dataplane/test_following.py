"""The stage of the access log exists only while somebody wants records."""

import pytest

from inferstream import InferenceRequest, InferenceResponse, MLModel, testing
from inferstream.dataplane.stages.access_log import AccessLog
from inferstream.errors import ModelNotFound
from inferstream.telemetry import following
from inferstream.telemetry.access import AccessLines
from inferstream.telemetry.following import LogFollowers
from tests.unit.telemetry.test_console import record


class M(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        return self.encode_response(["x"])


async def test_a_model_has_the_stage_while_somebody_follows_and_new_models_too() -> None:
    async with testing.run(M) as client:
        registry = client.application.registry
        served = registry.get("M")
        before = served.handler, served.gate
        assert not isinstance(served.handler, AccessLog)

        follower = registry.followers.open(None, errors=False)
        assert isinstance(served.handler, AccessLog)
        assert served.gate is None, "a call that a full queue refuses has a record"
        await client.infer("M", a=1)
        await registry.load("M")
        served = registry.get("M")
        assert isinstance(served.handler, AccessLog)
        await client.infer("M", a=1)
        records, dropped = await follower.read(5.0)
        assert [(each.model, each.status, each.items) for each in records] == [("M", "success", 1)] * 2
        assert dropped == 0

        registry.followers.close(follower)
        assert not isinstance(served.handler, AccessLog)
        assert (served.gate is None) is (before[1] is None)
        with pytest.raises(ModelNotFound):
            await client.infer("nope", a=1)


async def test_a_slow_follower_loses_records_and_learns_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "MOST_WAITING", 10)
    lines = AccessLines(logged=False)
    followers = LogFollowers(lines)
    slow, failures = followers.open(None, errors=False), followers.open("add", errors=True)
    for _ in range(25):
        lines.put(record())
    lines.put(record(status="invalid"))
    followers.put_foreign([record(model="elsewhere")], 3)
    records, dropped = await slow.read(0.0)
    assert (len(records), dropped) == (10, 16 + 1 + 3)
    records, dropped = await failures.read(0.0)
    assert ([each.status for each in records], dropped) == (["invalid"], 3)
    assert await slow.read(0.0) == ([], 0)
    followers.end()
    assert await slow.read(60.0) == ([], 0)


async def test_only_the_first_and_the_last_follower_change_anything() -> None:
    lines = AccessLines(logged=False)
    followers = LogFollowers(lines)
    changes: list[bool] = []
    followers.changed = changes.append
    first, second = followers.open(None, errors=False), followers.open(None, errors=False)
    followers.close(first)
    assert lines.on
    followers.close(second)
    assert not lines.on
    assert changes == [True, False]
    for _ in range(following.MOST_FOLLOWERS):
        assert not followers.full
        followers.open(None, errors=False)
    assert followers.full

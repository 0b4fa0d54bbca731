"""Which calls the default time limit ends, and whose settings limit the others."""

import asyncio

import pytest

from inferstream import Application, InferenceRequest, InferenceResponse, MLModel, ModelSettings, Settings
from inferstream.dataplane.call import Operation
from inferstream.dataplane.caller import Caller
from inferstream.dataplane.stages.live import limit_of
from inferstream.errors import DeadlineExceeded
from inferstream.repository import InMemoryRepository
from inferstream.types import Headers

DEFAULT = 0.1


class Impatient(Settings):
    request_timeout: float | None = DEFAULT


class Waits(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        await asyncio.sleep(4 * DEFAULT)
        return self.encode_response(["waited"])


async def infer(server: Settings, dialect: str = "", **settings: object) -> InferenceResponse | None:
    """The response of a model with these settings to a call of a dialect."""
    model = ModelSettings(name="waits", implementation=Waits, **settings)
    application = Application(server, repository=InMemoryRepository([model]))
    async with application:
        admission = application.dataplane.admit("waits", None, Caller(Headers(()), dialect))
        async with await admission.open(Operation.INFER, InferenceRequest(inputs=[])) as reply:
            return reply.first


async def test_the_default_ends_a_single_call() -> None:
    with pytest.raises(DeadlineExceeded):
        await infer(Impatient())


@pytest.mark.parametrize(
    ("server", "dialect", "settings"),
    [
        (Impatient(), "kafka", {}),
        (Impatient(cache_enabled=True), "kafka", {"cache_enabled": True}),
        (Impatient(), "", {"request_timeout": None}),
        (Impatient(), "", {"request_timeout": 30}),
        (Impatient(request_timeout=0), "", {}),
        (Impatient(request_timeout=None), "", {}),
    ],
)
async def test_it_ends_no_message_of_kafka_and_none_with_settings(
    server: Settings, dialect: str, settings: dict[str, object]
) -> None:
    assert await infer(server, dialect, **settings) is not None


@pytest.mark.parametrize(
    ("server", "model", "limit"),
    [
        ({}, {}, None),
        ({"request_timeout": 2}, {}, 2),
        ({"request_timeout": 2}, {"request_timeout": 1}, 1),
        ({"request_timeout": 2}, {"request_timeout": None}, None),
        ({"request_timeout": 2}, {"request_timeout": 0}, None),
        ({"request_timeout": None}, {"request_timeout": 1}, 1),
        ({"request_timeout": 0}, {}, None),
    ],
)
def test_a_stated_limit_is_the_model_s_else_the_server_s(
    server: dict[str, object], model: dict[str, object], limit: float | None
) -> None:
    assert Settings().request_timeout == 300
    assert limit_of(ModelSettings(implementation=Waits, **model), Settings(**server)) == limit


@pytest.mark.parametrize("settings", [Settings, ModelSettings])
def test_a_limit_is_not_negative(settings: type[Settings | ModelSettings]) -> None:
    with pytest.raises(ValueError, match="request_timeout"):
        settings(implementation="a.B", request_timeout=-1)

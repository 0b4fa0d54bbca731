"""Models that load with their first call: what answers while one is away, has failed or is gone."""

from collections.abc import Callable

import pytest

from inferstream import MLModel
from inferstream.dataplane.access import Access
from inferstream.dataplane.dataplane import DataPlane
from inferstream.dataplane.execution.local import Local
from inferstream.dataplane.registry import Registry
from inferstream.errors import ModelLoadFailed, ModelNotReady
from inferstream.processes.errors import OutOfMemory
from inferstream.repository import InMemoryRepository
from inferstream.settings import ModelSettings, Settings
from inferstream.telemetry.metrics import Meters
from inferstream.types import InferenceRequest, InferenceResponse


class Answers(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        return InferenceResponse(model_name=self.name, outputs=[])


class Models:
    """Version 1 of `m`, which loads at the start, and version 2, which loads on demand, if `fails` lets it."""

    def __init__(self) -> None:
        self.repository = InMemoryRepository([self._settings("1", "start"), self._settings("2", "demand")])
        self.registry = Registry(Settings(), self.repository, self._load, Meters())
        self.dataplane = DataPlane(Settings(), self.registry, Access(Settings()))
        self.fails: Callable[[], Exception] | None = None

    def _settings(self, version: str, load: str) -> ModelSettings:
        parameters = {"version": version}
        return ModelSettings(name="m", implementation=Answers, load=load, parameters=parameters)

    async def _load(self, settings: ModelSettings) -> Local:
        if self.fails is not None and settings.version == "2":
            raise self.fails()
        model = Answers(settings)
        model.ready = True
        return Local(model)

    async def answers(self, version: str | None = None) -> str | None:
        """The version that a call gets."""
        served = await self.dataplane.when_loaded(lambda: self.registry.serving("m", version))
        return served.execution.settings.version


@pytest.fixture
async def models() -> Models:
    made = Models()
    await made.registry.start()
    return made


async def test_the_version_that_serves_answers_after_a_first_load_of_another_has_failed(
    models: Models,
) -> None:
    models.fails = lambda: ModelLoadFailed("no weights")
    with pytest.raises(ModelNotReady):
        await models.answers()
    assert await models.answers() == "1"


async def test_the_version_that_serves_answers_after_a_reload_of_another_has_failed(models: Models) -> None:
    models.fails = lambda: ModelLoadFailed("no weights")
    with pytest.raises(ModelLoadFailed):
        await models.registry.load("m")
    assert await models.answers() == "1"


async def test_a_version_without_room_is_still_the_one_that_the_next_call_loads(models: Models) -> None:
    models.fails = lambda: OutOfMemory("no room")
    with pytest.raises(OutOfMemory):
        await models.answers()
    models.fails = None
    assert await models.answers() == "2"

"""Models that load with their first call: what answers while one is away, has failed or is gone."""

import asyncio
from collections.abc import Callable

import pytest

from inferstream import MLModel
from inferstream.dataplane.access import Authority
from inferstream.dataplane.dataplane import DataPlane
from inferstream.dataplane.execution.local import Local
from inferstream.dataplane.registry import Registry
from inferstream.errors import ModelLoadFailed, ModelNotFound, ModelNotReady
from inferstream.processes.errors import OutOfMemory
from inferstream.repository import BrokenModel, InMemoryRepository
from inferstream.repository.base import BrokenModels, Versions
from inferstream.settings import ModelSettings, Settings
from inferstream.telemetry.metrics import Meters
from inferstream.types import InferenceRequest, InferenceResponse


class Answers(MLModel):
    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        return InferenceResponse(model_name=self.name, outputs=[])


class Folder(InMemoryRepository):
    """A repository from which versions disappear, and whose source may not answer."""

    def __init__(self, versions: Versions) -> None:
        super().__init__(versions)
        self.gone: set[str | None] = set()
        self.away = False
        self.broken_models: BrokenModels = []

    async def list(self) -> Versions:
        return [settings for settings in await super().list() if settings.version not in self.gone]

    async def find(self, name: str) -> Versions:
        if self.away:
            raise ModelLoadFailed("s3://models: no answer")
        return await super().find(name)

    async def broken(self) -> BrokenModels:
        return self.broken_models


class Models:
    """Version 1 of `m`, which loads at the start, and version 2, which loads on demand, if `fails` lets it."""

    def __init__(self) -> None:
        self.repository = Folder([self._settings("1", "start"), self._settings("2", "demand")])
        self.registry = Registry(Settings(), Authority(Settings()), self.repository, self._load, Meters())
        self.dataplane = DataPlane(Settings(), self.registry, Authority(Settings()))
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


async def test_serving_version_responds_after_failed_first_load_of_another(
    models: Models,
) -> None:
    models.fails = lambda: ModelLoadFailed("no weights")
    with pytest.raises(ModelNotReady):
        await models.answers()
    assert await models.answers() == "1"


async def test_serving_version_responds_after_failed_reload_of_another(models: Models) -> None:
    models.fails = lambda: ModelLoadFailed("no weights")
    with pytest.raises(ModelLoadFailed):
        await models.registry.load("m")
    assert await models.answers() == "1"


async def test_first_load_does_not_query_the_model_source(models: Models) -> None:
    models.repository.away = True
    assert await models.answers() == "2"


async def test_removed_version_is_not_awaited(models: Models) -> None:
    models.repository.gone = {"2"}
    with pytest.raises(ModelNotFound, match="version 2"):
        async with asyncio.timeout(10):
            await models.answers("2")
    assert await models.answers() == "1"


async def test_calls_waiting_for_removed_version_use_serving_version(
    models: Models,
) -> None:
    models.repository.gone = {"2"}
    async with asyncio.timeout(10):
        assert await models.answers() == "1"


async def test_version_with_invalid_settings_has_failed(
    models: Models, caplog: pytest.LogCaptureFixture
) -> None:
    models.repository.gone = {"2"}
    models.repository.broken_models = [BrokenModel("m", "no such field", "2")]
    with pytest.raises(ModelNotReady):
        async with asyncio.timeout(10):
            await models.answers()
    assert await models.answers() == "1"
    reasons = {item.version: item.reason for item in await models.registry.index(False)}
    assert reasons["2"] == "Model m cannot be loaded: no such field"
    assert reasons["2"] in caplog.text


async def test_version_without_memory_is_loaded_by_next_call(models: Models) -> None:
    models.fails = lambda: OutOfMemory("no room")
    with pytest.raises(OutOfMemory):
        await models.answers()
    models.fails = None
    assert await models.answers() == "2"


async def test_call_waiting_for_unload_does_not_reload_the_model(models: Models) -> None:
    unloading = asyncio.create_task(models.registry.unload("m"))
    await asyncio.sleep(0)  # it has begun
    await models.registry.first_calls.wait(("m", "2"))
    await unloading
    assert await models.registry.index(True) == []

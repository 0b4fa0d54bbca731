"""What may be served: folders, settings, apps, classes and objects."""

from pathlib import Path
from typing import Any

import pytest

from inferstream import App, MLModel, ModelSettings
from inferstream.errors import InvalidSettings
from inferstream.server.serve_target import resolve
from inferstream.settings import Settings


class Model(MLModel):
    async def predict(self, payload: Any) -> Any: ...


async def names(served: Any) -> list[str]:
    _, repository = resolve(served, {})
    return sorted(settings.name for settings in await repository.list())


async def test_every_kind_of_model_has_a_name() -> None:
    app = App()

    @app.model
    def size(text: str) -> int:
        return len(text)

    assert await names(Model) == ["Model"]
    assert await names({"a": Model, "b": Model}) == ["a", "b"]
    assert await names([app, ModelSettings(name="c", implementation=Model)]) == ["c", "size"]


def test_duplicate_model_names_are_refused() -> None:
    with pytest.raises(InvalidSettings, match='two models have the name "Model"'):
        resolve([Model, Model], {})
    with pytest.raises(InvalidSettings, match="7 is neither a folder, nor settings"):
        resolve([7], {})


def test_settings_are_complete(tmp_path: Path) -> None:
    settings, _ = resolve(tmp_path, {"http_port": 0})
    assert settings.http_port == 0
    assert resolve(Settings(http_port=1), {})[0].http_port == 1
    with pytest.raises(InvalidSettings, match="http_port must be among them"):
        resolve(Settings(), {"http_port": 0})
    with pytest.raises(InvalidSettings, match="http_prot"):
        resolve(tmp_path, {"http_prot": 0})


def test_invalid_repository_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match=r'model_repository_implementation "builtins\.dict"'):
        resolve(tmp_path, {"model_repository_implementation": "builtins.dict"})

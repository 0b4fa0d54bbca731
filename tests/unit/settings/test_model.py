"""Settings of a model."""

from collections import Counter, OrderedDict
from uuid import UUID

import pytest

from inferstream.errors import InvalidSettings
from inferstream.settings import (
    MODEL_SETTINGS_FILE,
    ModelParameters,
    ModelSettings,
    load_model_settings,
)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_model_from_variables(monkeypatch) -> None:
    monkeypatch.setenv("MLSERVER_MODEL_IMPLEMENTATION", "m.M")
    assert ModelSettings().implementation_ == "m.M"


def test_version_must_be_a_string(tmp_path) -> None:
    file = tmp_path / MODEL_SETTINGS_FILE
    file.write_text('{"implementation": "m.M", "parameters": {"version": 1}}')
    with pytest.raises(InvalidSettings, match=r"parameters\.version"):
        load_model_settings(file)


def test_implementation_may_be_a_class_or_a_path() -> None:
    settings = ModelSettings(name="m", implementation="collections.OrderedDict")
    settings.implementation = Counter
    assert settings.implementation is Counter
    assert settings.dict()["implementation"] == "collections.Counter"
    settings.implementation = "collections.OrderedDict"
    assert settings.implementation is OrderedDict


def test_custom_pool_gets_a_random_name_unless_named() -> None:
    first, second = (ModelParameters(autogenerate_inference_pool_gid=True) for _ in range(2))
    names = {UUID(each.dict()["inference_pool_gid"]) for each in (first, second)}
    assert {name.version for name in names} == {4}
    assert len(names) == 2
    assert ModelParameters.from_complete(first.json().encode()) == first
    given = ModelParameters(autogenerate_inference_pool_gid=True, inference_pool_gid="mine")
    assert (given.inference_pool_gid, ModelParameters().inference_pool_gid) == ("mine", None)

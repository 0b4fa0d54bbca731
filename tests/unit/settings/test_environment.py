"""Settings from variables of the environment, and from a file of variables."""

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from inferstream.settings import (
    MODEL_SETTINGS_FILE,
    SETTINGS_FILE,
    ModelSettings,
    load_model_settings,
    load_settings,
)


def test_home_and_variables_are_replaced_in_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("WHERE", "/data")
    server = {"environments_dir": "~/envs", "logging_settings": "$WHERE/logging.json"}
    (tmp_path / SETTINGS_FILE).write_text(json.dumps(server))
    parameters = {
        "uri": "$WHERE/model.joblib",
        "environment_path": "~/env",
        "environment_tarball": "${WHERE}/env.tar.gz",
    }
    file = tmp_path / MODEL_SETTINGS_FILE
    file.write_text(json.dumps({"implementation": "m.M", "parameters": parameters}))

    settings = load_settings(tmp_path)
    assert (settings.environments_dir, settings.logging_settings) == ("/home/me/envs", "/data/logging.json")
    found = load_model_settings(file).parameters
    assert found is not None
    assert (found.uri, found.environment_path) == ("/data/model.joblib", "/home/me/env")
    assert found.environment_tarball == "/data/env.tar.gz"


def test_uris_of_other_places_stay_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("X", "replaced")
    file = tmp_path / MODEL_SETTINGS_FILE
    file.write_text(json.dumps({"implementation": "m.M", "parameters": {"uri": "s3://bucket/$X"}}))
    found = load_model_settings(file).parameters
    assert found is not None
    assert found.uri == "s3://bucket/$X"


def test_an_env_file_of_its_own_is_read_instead_of_dotenv(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(".env").write_text("MLSERVER_MODEL_IMPLEMENTATION=dot.Env\nMLSERVER_MODEL_PLATFORM=dot\n")
    Path("one.env").write_text("MLSERVER_MODEL_IMPLEMENTATION=one.Env\nMLSERVER_MODEL_NAME=one\n")
    Path("two.env").write_text("MLSERVER_MODEL_NAME=two\n")
    found = ModelSettings(_env_file="one.env")
    assert (found.implementation_, found.name, found.platform) == ("one.Env", "one", "")
    assert ModelSettings(_env_file=("one.env", "two.env")).name == "two"
    assert ModelSettings().implementation_ == "dot.Env"
    with pytest.raises(ValidationError, match="implementation"):
        ModelSettings(_env_file=None)
    Path("one.env").write_text("MLSERVER_MODEL_IMPLEMENTATION=changed.Env\n")
    assert ModelSettings(_env_file=Path("one.env")).implementation_ == "changed.Env"
    monkeypatch.setenv("MLSERVER_MODEL_NAME", "variable")
    assert ModelSettings(_env_file="one.env").name == "variable"

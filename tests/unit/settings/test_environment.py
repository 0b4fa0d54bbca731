"""Settings from variables of the environment, and from a file of variables."""

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from inferstream.settings import (
    MODEL_SETTINGS_FILE,
    SETTINGS_FILE,
    ModelSettings,
    Settings,
    load_model_settings,
    load_settings,
)
from inferstream.settings.environment import replaces_mlserver


def test_home_and_variables_are_expanded_in_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_remote_uris_are_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("X", "replaced")
    file = tmp_path / MODEL_SETTINGS_FILE
    file.write_text(json.dumps({"implementation": "m.M", "parameters": {"uri": "s3://bucket/$X"}}))
    found = load_model_settings(file).parameters
    assert found is not None
    assert found.uri == "s3://bucket/$X"


def test_configured_env_file_replaces_dotenv(tmp_path, monkeypatch) -> None:
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


@pytest.mark.parametrize(
    ("variables", "command", "replaces"),
    [
        ({}, "server", False),
        ({}, "/opt/bin/mlserver", True),
        ({"MLSERVER_HTTP_PORT": "8080"}, "server", True),
        ({"MLSERVER_MODEL_NAME": "iris"}, "server", True),
        ({"MLSERVER_HOST": "0.0.0.0", "MLSERVER_MODELS_DIR": "/mnt/models"}, "server", False),
        ({"MLSERVER_SERVICE_HOST": "10.0.0.1", "MLSERVER_PORT": "tcp://10.0.0.1:80"}, "server", False),
        ({"INFERSTREAM_HTTP_PORT": "8080"}, "server", False),
    ],
)
def test_command_or_variable_of_mlserver_is_detected(
    variables: dict[str, str], command: str, replaces: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", [command, "start"])
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert replaces_mlserver() is replaces
    assert Settings().allow_open_repository == ("local" if replaces else False)
    assert Settings(allow_open_repository=False).allow_open_repository is False

"""Settings files written for MLServer load with every field they may have."""

import json
import logging
from collections import Counter, OrderedDict
from pathlib import Path
from uuid import UUID

import pytest
from pydantic import ValidationError

from inferstream import compat
from inferstream.settings import (
    MODEL_SETTINGS_FILE,
    SETTINGS_FILE,
    ModelParameters,
    ModelSettings,
    load_model_settings,
    load_settings,
)

SERVER = {
    "debug": True,
    "parallel_workers": 1,
    "parallel_workers_timeout": 5,
    "environments_dir": "/tmp/envs",
    "model_repository_implementation": "mine.Repository",
    "model_repository_root": ".",
    "model_repository_implementation_args": {"depth": 2},
    "load_models_at_startup": True,
    "server_name": "mlserver",
    "server_version": "1.7.1",
    "extensions": ["one"],
    "host": "0.0.0.0",
    "http_port": 8080,
    "grpc_port": 8081,
    "metrics_port": 8082,
    "root_path": "/behind",
    "grpc_max_message_length": 1024,
    "cors_settings": {
        "allow_origins": ["*"],
        "allow_origin_regex": None,
        "allow_credentials": False,
        "allow_methods": ["GET"],
        "allow_headers": [],
        "expose_headers": [],
        "max_age": 600,
    },
    "metrics_endpoint": "/metrics",
    "metrics_rest_server_prefix": "rest_server",
    "metrics_dir": "/tmp/metrics",
    "use_structured_logging": True,
    "logging_settings": {"version": 1},
    "kafka_enabled": True,
    "kafka_servers": "localhost:9092",
    "kafka_topic_input": "in",
    "kafka_topic_output": "out",
    "tracing_server": None,
    "cache_enabled": False,
    "cache_size": 10,
    "gzip_enabled": False,
    "_custom_rest_server_settings": None,
    "_custom_metrics_server_settings": None,
    "_custom_grpc_server_settings": None,
}
MODEL = {
    "implementation": "mine.Model",
    "name": "m",
    "platform": "sklearn",
    "versions": ["sklearn/1"],
    "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1], "parameters": {"content_type": "np"}}],
    "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1]}],
    "parallel_workers": 0,
    "warm_workers": True,
    "max_batch_size": 8,
    "max_batch_time": 0.1,
    "cache_enabled": False,
    "parameters": {
        "uri": "./model.joblib",
        "version": "1",
        "environment_path": "./env",
        "environment_tarball": "./env.tar.gz",
        "inference_pool_gid": "one",
        "autogenerate_inference_pool_gid": False,
        "format": "LogisticRegression",
        "content_type": "np",
        "extra": {"predict_fn": "predict"},
        "free": "kept",
    },
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / SETTINGS_FILE).write_text(json.dumps(SERVER))
    (tmp_path / MODEL_SETTINGS_FILE).write_text(json.dumps(MODEL))
    return tmp_path


def test_every_field_is_known(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "inferstream.settings"):
        server = load_settings(folder)
        model = load_model_settings(folder / MODEL_SETTINGS_FILE)

    assert not [line for line in caplog.messages if "unknown" in line]
    for name, value in SERVER.items():
        found = getattr(server, name.removeprefix("_"))
        if name == "cors_settings":
            assert {key: getattr(found, key) for key in value} == value
        elif name != "model_repository_root":  # which the command line says
            assert found == value, name
    dumped = model.model_dump(by_alias=True, exclude_unset=True, exclude_none=True)
    assert dumped == MODEL


def test_what_is_without_effect_is_named_in_one_warning(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "inferstream.settings"):
        load_settings(folder)
        load_model_settings(folder / MODEL_SETTINGS_FILE)

    (model,) = caplog.messages
    assert model == f'{folder / MODEL_SETTINGS_FILE}: understood and without effect: "warm_workers"'


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


def test_cross_origin_rules_may_be_variables_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLSERVER_CORS_SETTINGS", '{"max_age": 5}')
    monkeypatch.setenv("MLSERVER_ALLOW_ORIGINS", '["https://a"]')
    cors = load_settings(tmp_path).cors_settings
    assert cors is not None
    assert (cors.max_age, cors.allow_origins) == (5, ["https://a"])


def test_an_implementation_may_be_set_as_a_class_or_as_its_path() -> None:
    settings = ModelSettings(name="m", implementation="collections.OrderedDict")
    settings.implementation = Counter
    assert settings.implementation is Counter
    assert settings.dict()["implementation"] == "collections.Counter"
    settings.implementation = "collections.OrderedDict"
    assert settings.implementation is OrderedDict


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


def test_mlservers_load_model_settings_fills_name_and_uri_from_the_folder(tmp_path, monkeypatch) -> None:
    compat.install()
    from mlserver.repository.load import load_model_settings as theirs

    path = tmp_path / "iris" / MODEL_SETTINGS_FILE
    path.parent.mkdir()
    path.write_text('{"implementation": "model.Iris"}')
    monkeypatch.chdir(path.parent)
    for given in (str(path), MODEL_SETTINGS_FILE):
        settings = theirs(given)
        assert settings.name == "iris"
        assert settings.parameters.uri == str(path.parent)
        assert settings.source == str(path)
    path.write_text('{"implementation": "model.Iris", "name": "rose", "parameters": {"uri": "./x"}}')
    settings = theirs(str(path))
    assert (settings.name, settings.parameters.uri) == ("rose", "./x")


def test_a_pool_of_its_own_gets_a_random_name_unless_it_has_one() -> None:
    first, second = (ModelParameters(autogenerate_inference_pool_gid=True) for _ in range(2))
    names = {UUID(each.dict()["inference_pool_gid"]) for each in (first, second)}
    assert {name.version for name in names} == {4}
    assert len(names) == 2
    assert ModelParameters.from_complete(first.json().encode()) == first
    given = ModelParameters(autogenerate_inference_pool_gid=True, inference_pool_gid="mine")
    assert (given.inference_pool_gid, ModelParameters().inference_pool_gid) == ("mine", None)

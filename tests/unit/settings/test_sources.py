"""Files of settings: their precedence, and faults that name their source."""

import json
import logging
from pathlib import Path

import pytest

from inferstream.errors import InvalidSettings
from inferstream.settings import (
    MODEL_SETTINGS_FILE,
    SETTINGS_FILE,
    load_model_settings,
    load_settings,
)
from inferstream.settings.sources import ConflictingSettings


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_flags_file_ours_theirs_dotenv_default(tmp_path, monkeypatch) -> None:
    def port() -> int:
        return load_settings(tmp_path).http_port

    assert port() == 8080
    (tmp_path / ".env").write_text("MLSERVER_HTTP_PORT=1\n")
    assert port() == 1
    monkeypatch.setenv("MLSERVER_HTTP_PORT", "2")
    assert port() == 2
    monkeypatch.setenv("INFERSTREAM_HTTP_PORT", "3")
    assert port() == 3
    (tmp_path / "settings.json").write_text('{"http_port": 4}')
    assert port() == 4
    assert load_settings(tmp_path, {"http_port": 5}).http_port == 5


def test_the_environment_fills_what_a_models_file_leaves_open(tmp_path, monkeypatch) -> None:
    file = tmp_path / MODEL_SETTINGS_FILE
    file.write_text('{"implementation": "m.M", "parameters": {"custom": 1}}')
    monkeypatch.setenv("MLSERVER_MODEL_NAME", "named")
    monkeypatch.setenv("MLSERVER_MODEL_URI", "/somewhere")
    settings = load_model_settings(file)
    assert settings.name == "named"
    assert settings.parameters is not None
    assert settings.parameters.uri == "/somewhere"
    assert settings.parameters.custom == 1


def test_every_fault_is_named_at_once(tmp_path) -> None:
    (tmp_path / "settings.json").write_text('{"http_port": -1, "debug": "perhaps"}')
    with pytest.raises(InvalidSettings) as failure:
        load_settings(tmp_path)
    for named in ("settings.json", "http_port", "debug"):
        assert named in failure.value.message


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ('{"header_timeout": "soon"}', "header_timeout"),
        ('{"max_connections": 0}', "max_connections"),
        ('{"gzip_enabled": 7}', "gzip_enabled"),
        ('{"grpc_stream_dialect": "esperanto"}', "grpc_stream_dialect"),
        ("{", "line 1 column 2"),
        ("[]", "JSON object"),
    ],
)
def test_a_fault_names_file_and_field_in_one_line(tmp_path, settings: str, named: str) -> None:
    (tmp_path / "settings.json").write_text(settings)
    with pytest.raises(InvalidSettings) as failure:
        load_settings(tmp_path)
    assert "settings.json" in failure.value.message
    assert named in failure.value.message
    assert "\n" not in failure.value.message


def test_files_that_are_none_are_refused(tmp_path) -> None:
    import os

    fifo = tmp_path / MODEL_SETTINGS_FILE
    os.mkfifo(fifo)
    with pytest.raises(InvalidSettings, match="regular file"):
        load_model_settings(fifo)
    fifo.unlink()
    fifo.write_text('{"implementation": "' + "x" * 2**21 + '"}')
    with pytest.raises(InvalidSettings, match="larger"):
        load_model_settings(fifo)


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


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_file_from_windows_is_read(tmp_path, mark: bytes, end: bytes) -> None:
    (tmp_path / SETTINGS_FILE).write_bytes(mark + b"{" + end + b'"http_port": 4' + end + b"}")
    (tmp_path / MODEL_SETTINGS_FILE).write_bytes(mark + b"{" + end + b'"implementation": "m.M"}')
    assert load_settings(tmp_path).http_port == 4
    assert load_model_settings(tmp_path / MODEL_SETTINGS_FILE).implementation_ == "m.M"


@pytest.mark.parametrize("variable", ["INFERSTREAM_GRPC_PORT", "MLSERVER_GRPC_PORT"])
def test_the_address_of_a_service_of_kubernetes_is_no_port(tmp_path, monkeypatch, caplog, variable) -> None:
    monkeypatch.setenv(variable, "tcp://10.96.0.1:8081")
    monkeypatch.setattr(logging.getLogger("inferstream"), "propagate", True)
    with caplog.at_level(logging.WARNING, "inferstream.settings"):
        assert load_settings(tmp_path).grpc_port == 8081
    assert f"environment: {variable} is ignored: Kubernetes sets it" in caplog.text
    monkeypatch.setenv(variable, "tcp")
    with pytest.raises(InvalidSettings, match="grpc_port"):
        load_settings(tmp_path)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"max_boddy_bytes": 1}, '"max_body_bytes"'),
        ({"max_batch_size": 4}, "belongs in model-settings.json"),
        ({"tool_format": "hermes"}, "belongs in model-settings.json"),
        ({"custom_rest_server_settings": {}}, '"_custom_rest_server_settings"'),
        ({"cors_settings": {"allow_origin": []}}, '"allow_origins"'),
    ],
)
def test_strict_refuses_what_is_unknown_in_the_servers_file(
    tmp_path, caplog, values: dict[str, object], named: str
) -> None:
    caplog.set_level(logging.WARNING, "inferstream.settings")
    (tmp_path / SETTINGS_FILE).write_text(json.dumps(values))
    load_settings(tmp_path)
    assert named in caplog.text
    assert "; installed plug-ins: agents, blazerpc, " in caplog.messages[-1]
    with pytest.raises(InvalidSettings, match="--strict: ") as refused:
        load_settings(tmp_path, {"strict": True})
    assert named in refused.value.message


@pytest.mark.parametrize("prefix", ["INFERSTREAM_", "MLSERVER_"])
def test_strict_refuses_an_unknown_variable(tmp_path, monkeypatch, prefix: str) -> None:
    monkeypatch.setenv(f"{prefix}MAX_BODDY_BYTES", "5")
    monkeypatch.setenv(f"{prefix}STRICT", "true")
    with pytest.raises(InvalidSettings, match=f"{prefix}MAX_BODY_BYTES"):
        load_settings(tmp_path)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"splt": {"1": 100}}, 'did you mean "split"'),
        ({"http_port": 1}, "belongs in settings.json"),
        ({"uri": "x"}, 'belongs in "parameters"'),
        ({"parameters": {"max_batch_size": 4}}, "belongs one level up"),
        ({"parameters": {"verison": "1"}}, 'did you mean "version"'),
    ],
)
def test_a_model_keeps_the_faults_of_its_file(tmp_path, values: dict[str, object], named: str) -> None:
    file = tmp_path / MODEL_SETTINGS_FILE
    file.write_text(json.dumps({"implementation": "m.M", **values}))
    [fault] = load_model_settings(file).faults
    assert named in fault


def test_parameters_of_a_runtime_are_no_faults(tmp_path) -> None:
    file = tmp_path / MODEL_SETTINGS_FILE
    file.write_text('{"implementation": "m.M", "parameters": {"custom": 1, "extra": {"max_batch_size": 1}}}')
    assert load_model_settings(file).faults == ()


def test_settings_that_exclude_each_other_are_named_without_a_dump(tmp_path) -> None:
    (tmp_path / SETTINGS_FILE).write_text('{"frontends": 2, "idle_unload": 60}')
    with pytest.raises(ConflictingSettings) as refused:
        load_settings(tmp_path)
    assert refused.value.message.startswith(f"{tmp_path / SETTINGS_FILE}: idle_unload: need frontends 1")
    assert "{" not in refused.value.message

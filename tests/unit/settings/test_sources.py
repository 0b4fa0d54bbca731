"""Files of settings: their precedence, and faults that name their source."""

import json
import logging
import re
from pathlib import Path

import pytest

from inferstream.errors import InvalidSettings
from inferstream.settings import (
    MODEL_SETTINGS_FILE,
    SETTINGS_FILE,
    load_model_settings,
    load_settings,
)
from inferstream.settings.sources import ConflictingSettings, read_json


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_precedence_is_flags_file_variables_dotenv_defaults(tmp_path, monkeypatch) -> None:
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


def test_environment_fills_fields_missing_in_the_model_file(tmp_path, monkeypatch) -> None:
    file = tmp_path / MODEL_SETTINGS_FILE
    file.write_text('{"implementation": "m.M", "parameters": {"custom": 1}}')
    monkeypatch.setenv("MLSERVER_MODEL_NAME", "named")
    monkeypatch.setenv("MLSERVER_MODEL_URI", "/somewhere")
    settings = load_model_settings(file)
    assert settings.name == "named"
    assert settings.parameters is not None
    assert settings.parameters.uri == "/somewhere"
    assert settings.parameters.custom == 1


def test_every_error_is_reported_at_once(tmp_path) -> None:
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
def test_error_names_file_and_field_in_one_line(tmp_path, settings: str, named: str) -> None:
    (tmp_path / "settings.json").write_text(settings)
    with pytest.raises(InvalidSettings) as failure:
        load_settings(tmp_path)
    assert "settings.json" in failure.value.message
    assert named in failure.value.message
    assert "\n" not in failure.value.message


def test_invalid_files_are_refused(tmp_path) -> None:
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


def test_every_field_is_recognized(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
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


def test_settings_without_effect_are_named_in_one_warning(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "inferstream.settings"):
        load_settings(folder)
        load_model_settings(folder / MODEL_SETTINGS_FILE)

    (model,) = caplog.messages
    assert model == f'{folder / MODEL_SETTINGS_FILE}: accepted but without effect: "warm_workers"'


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_windows_file_is_read(tmp_path, mark: bytes, end: bytes) -> None:
    (tmp_path / SETTINGS_FILE).write_bytes(mark + b"{" + end + b'"http_port": 4' + end + b"}")
    (tmp_path / MODEL_SETTINGS_FILE).write_bytes(mark + b"{" + end + b'"implementation": "m.M"}')
    assert load_settings(tmp_path).http_port == 4
    assert load_model_settings(tmp_path / MODEL_SETTINGS_FILE).implementation_ == "m.M"


@pytest.mark.parametrize(
    "variable", ["INFERSTREAM_OBJECTIVES", "MLSERVER_OBJECTIVES", "inferstream_objectives"]
)
def test_non_json_variable_is_named(tmp_path, monkeypatch, variable: str) -> None:
    monkeypatch.setenv(variable, "chat")
    expected = f"environment: {variable.upper()}: line 1 column 1: not valid JSON: no JSON value; hint: "
    with pytest.raises(InvalidSettings, match=f"^{re.escape(expected)}"):
        load_settings(tmp_path)


def test_invalid_key_in_a_variable_is_not_attributed_to_the_file(tmp_path, monkeypatch) -> None:
    (tmp_path / SETTINGS_FILE).write_text('{"objectives": {"chat": 1}}')
    monkeypatch.setenv("INFERSTREAM_OBJECTIVES", '{"batch": 10}')
    with pytest.raises(InvalidSettings, match=r'^environment: INFERSTREAM_OBJECTIVES: field "batch": '):
        load_settings(tmp_path)
    (tmp_path / SETTINGS_FILE).write_text('{"objectives": {"batch": 11}}')
    with pytest.raises(InvalidSettings, match=r'settings\.json: field "objectives\.batch": .* got 11'):
        load_settings(tmp_path)


def test_invalid_value_names_its_source(tmp_path, monkeypatch) -> None:
    (tmp_path / SETTINGS_FILE).write_text('{"frontends": -1, "http_port": 5, "objectives": {"chat": 0}}')
    monkeypatch.setenv("INFERSTREAM_GRPC_PORT", "-2")
    with pytest.raises(InvalidSettings) as refused:
        load_settings(tmp_path, {"http_port": -3}, {"http_port": "--http-port"})
    assert {re.sub(r": must be (.*, got )?", " ", each) for each in refused.value.message.split("; ")} == {
        "--http-port -3 at least 0",
        "environment: INFERSTREAM_GRPC_PORT '-2'",
        f'{tmp_path / SETTINGS_FILE}: field "frontends" -1',
        'field "objectives.chat" 0',
    }


@pytest.mark.parametrize("variable", ["INFERSTREAM_GRPC_PORT", "MLSERVER_GRPC_PORT"])
def test_kubernetes_service_address_is_not_a_port(tmp_path, monkeypatch, caplog, variable) -> None:
    monkeypatch.setenv(variable, "tcp://10.96.0.1:8081")
    monkeypatch.setattr(logging.getLogger("inferstream"), "propagate", True)
    with caplog.at_level(logging.WARNING, "inferstream.settings"):
        assert load_settings(tmp_path).grpc_port == 8081
    assert f"environment: {variable} ignored: Kubernetes sets it" in caplog.text
    monkeypatch.setenv(variable, "tcp")
    with pytest.raises(InvalidSettings, match=f"^environment: {variable}: must be an integer"):
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
def test_strict_mode_refuses_unknown_settings_in_the_server_file(
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
def test_strict_mode_refuses_an_unknown_variable(tmp_path, monkeypatch, prefix: str) -> None:
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
def test_model_keeps_the_errors_of_its_file(tmp_path, values: dict[str, object], named: str) -> None:
    file = tmp_path / MODEL_SETTINGS_FILE
    file.write_text(json.dumps({"implementation": "m.M", **values}))
    [fault] = load_model_settings(file).faults
    assert named in fault


def test_runtime_parameters_are_not_errors(tmp_path) -> None:
    file = tmp_path / MODEL_SETTINGS_FILE
    file.write_text('{"implementation": "m.M", "parameters": {"custom": 1, "extra": {"max_batch_size": 1}}}')
    assert load_model_settings(file).faults == ()


def test_mutually_exclusive_settings_are_named_without_a_dump(tmp_path) -> None:
    (tmp_path / SETTINGS_FILE).write_text('{"frontends": 2, "idle_unload": 60}')
    with pytest.raises(ConflictingSettings) as refused:
        load_settings(tmp_path)
    assert refused.value.message.startswith(f"{tmp_path / SETTINGS_FILE}: idle_unload: need frontends 1")
    assert "{" not in refused.value.message


@pytest.mark.parametrize("text", [b'{"a": %s}' % (b"1" * 5000), b"[" * 20_000, b'{"a": "\xff"}'])
def test_unreadable_json_is_an_error_that_names_the_file(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(text)
    with pytest.raises(InvalidSettings, match=f"{path}: not a JSON text"):
        read_json(path)

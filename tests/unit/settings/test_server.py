"""One order of precedence, and faults that name their source."""

import pytest

from inferstream.errors import InvalidSettings
from inferstream.settings import (
    MODEL_SETTINGS_FILE,
    ModelSettings,
    Settings,
    load_model_settings,
    load_settings,
)


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


def test_orchestrators_variables(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("MLSERVER_LOAD_MODELS_AT_STARTUP", "false")
    monkeypatch.setenv("MLSERVER_GRPC_MAX_MESSAGE_LENGTH", "123")
    monkeypatch.setenv("MLSERVER_METRICS_ENDPOINT", "")
    monkeypatch.setenv("MLSERVER_CORS_SETTINGS", '{"allow_origins": ["https://a"]}')
    settings = load_settings(tmp_path)
    assert settings.load_models_at_startup is False
    assert settings.grpc_max_message_length == 123
    assert settings.metrics_endpoint is None
    assert settings.cors_settings is not None
    assert settings.cors_settings.allow_origins == ["https://a"]


def test_a_model_from_variables_alone(monkeypatch) -> None:
    monkeypatch.setenv("MLSERVER_MODEL_IMPLEMENTATION", "m.M")
    assert ModelSettings().implementation_ == "m.M"


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


def test_a_version_must_be_text(tmp_path) -> None:
    file = tmp_path / MODEL_SETTINGS_FILE
    file.write_text('{"implementation": "m.M", "parameters": {"version": 1}}')
    with pytest.raises(InvalidSettings, match=r"parameters\.version"):
        load_model_settings(file)


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


def test_every_setting_says_what_it_is() -> None:
    silent = [name for name, field in Settings.model_fields.items() if not field.description]
    assert silent == []


def test_options_passed_on_have_mlservers_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLSERVER_CUSTOM_REST_SERVER_SETTINGS", '{"backlog": 3}')
    assert Settings().custom_rest_server_settings == {"backlog": 3}
    settings = Settings(_custom_rest_server_settings={"backlog": 9})
    assert settings._custom_rest_server_settings == {"backlog": 9}
    settings._custom_grpc_server_settings = {"grpc.so_reuseport": 1}
    assert settings.custom_grpc_server_settings == {"grpc.so_reuseport": 1}


@pytest.mark.parametrize(
    ("buckets", "why"),
    [
        ({"requests": []}, "1 to 100"),
        ({"requests": [1, 1]}, "ascend"),
        ({"first_item": [2, 1]}, "ascend"),
        ({"between_items": [0, 1]}, "positive"),
        ({"between_items": [1, 1e999]}, "positive|finite"),
        ({"waits": [1]}, "waits|requests"),
        ({"requests": ["soon"]}, "number"),
        ([1, 2], "dictionary|object"),
    ],
)
def test_wrong_buckets_are_refused(buckets, why) -> None:
    with pytest.raises(InvalidSettings, match=rf"(?s)metrics_buckets.*({why})"):
        load_settings(".", {"metrics_buckets": buckets})


def test_buckets_can_come_from_the_environment(monkeypatch) -> None:
    monkeypatch.setenv("INFERSTREAM_METRICS_BUCKETS", '{"between_items": [0.00001, 0.0001]}')
    assert load_settings(".").metrics_buckets == {"between_items": (0.00001, 0.0001)}

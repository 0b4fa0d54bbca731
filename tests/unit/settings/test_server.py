"""Settings of the server."""

import pytest

from inferstream.errors import InvalidSettings
from inferstream.settings import ModelParameters, ModelSettings, Settings, load_settings
from inferstream.settings.descriptions import describe_fields


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_orchestrator_variables_are_supported(tmp_path, monkeypatch) -> None:
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


def test_every_setting_has_a_description() -> None:
    for settings in (Settings, ModelSettings, ModelParameters):
        assert describe_fields(settings).keys() == settings.model_fields.keys()


def test_schemas_have_descriptions() -> None:
    document = ModelSettings.model_json_schema()
    assert document["properties"]["implementation"]["description"].startswith(
        "Import path of your MLModel subclass"
    )
    parameters = document["$defs"]["ModelParameters"]["properties"]
    assert parameters["version"]["description"] == "Version that clients address as /versions/{version}."


def test_passed_through_options_have_mlserver_names(monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_invalid_buckets_are_refused(buckets, why) -> None:
    with pytest.raises(InvalidSettings, match=rf"(?s)metrics_buckets.*({why})"):
        load_settings(".", {"metrics_buckets": buckets})


def test_buckets_are_read_from_the_environment(monkeypatch) -> None:
    monkeypatch.setenv("INFERSTREAM_METRICS_BUCKETS", '{"between_items": [0.00001, 0.0001]}')
    assert load_settings(".").metrics_buckets == {"between_items": (0.00001, 0.0001)}

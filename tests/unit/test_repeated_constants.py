"""Constants that a plug-in has a copy of, because the extension API does not have them: the copies are right."""

from inferstream import handlers
from inferstream.clients.transport import ModelName, Target
from inferstream.codecs import base as codec_base
from inferstream.codecs.values import base, tensor_objects
from inferstream.plugins.agents import messages as rpc_messages
from inferstream.plugins.blazerpc import errors, hooks, jsonrpc, registry
from inferstream.plugins.kafka import messages
from inferstream.plugins.keys import credentials, secret
from inferstream.plugins.mlserver import codecs, model, stubs
from inferstream.plugins.mlserver import settings as model_settings
from inferstream.plugins.page import dialect, flat_schema
from inferstream.plugins.ray import stopping as stopping_of_replicas
from inferstream.plugins.record import recording, redaction
from inferstream.plugins.sources import fetched_artefacts as fetched
from inferstream.plugins.tools.bench import rest
from inferstream.plugins.tools.image import image, secrets
from inferstream.plugins.triton import extension, live_settings, parameters
from inferstream.plugins.triton import region_parameters as regions
from inferstream.plugins.triton.regions import SYSTEM_SHARED_MEMORY
from inferstream.protos import dialects, ids, pool
from inferstream.repository import trust
from inferstream.server import stopping
from inferstream.server.grpc.statuses import grpc_status
from inferstream.server.rest.dialects import metadata
from inferstream.settings import MODEL_SETTINGS_FILE, SETTINGS_FILE, Settings, environment, sources
from inferstream.telemetry import logs, masks


def test_key_prefix_is_the_same_in_logs_and_recordings() -> None:
    assert masks.PREFIX == secret.PREFIX == redaction._PREFIX.decode()


def test_recordings_omit_key_headers() -> None:
    assert {*credentials.HEADERS, *Settings().credential_headers} <= recording.OF_JSON


def test_log_settings_configure_server_loggers() -> None:
    assert {*live_settings.LOGGERS} == {*logs.server_loggers()}


def test_shared_memory_and_final_response_parameters_match_clients() -> None:
    assert {*extension.references} == {regions.REGION}
    assert SYSTEM_SHARED_MEMORY in extension.protocol_extensions
    assert parameters.FINAL_RESPONSE == dialects.FINAL_RESPONSE


def test_page_reads_the_input_parameters() -> None:
    for name in ("CHOICES", "DEFAULT", "DESCRIPTION", "FORMAT", "NULLABLE"):
        assert getattr(flat_schema, name) == getattr(base, name)
    assert {dialect.ROOT: dialect.ALIVE}.items() <= metadata.ALIVE.items()


def test_one_setting_allows_code_from_every_source() -> None:
    assert fetched.ALLOW == trust.ALLOW


def test_replicas_wait_for_the_server_stop_timeout() -> None:
    assert stopping_of_replicas.STOPPING == stopping.AFTERWARDS + stopping.SPARE


def test_ids_and_arrays_follow_the_protocol() -> None:
    assert messages.MAX_ID == ids.MAX_ID
    assert jsonrpc.ARRAY == tensor_objects.KEYS
    assert {*tensor_objects.KINDS} <= {*jsonrpc.DATATYPES}
    assert registry.DIMENSIONS == base.DIMENSIONS
    for name in ("PARSE_ERROR", "INVALID_REQUEST", "METHOD_NOT_FOUND", "INVALID_PARAMS", "INTERNAL_ERROR"):
        assert getattr(errors, name) == getattr(rpc_messages, name)


def test_container_images_have_the_server_settings_files() -> None:
    assert (secrets.SETTINGS_FILE, image.MODEL_SETTINGS_FILE) == (SETTINGS_FILE, MODEL_SETTINGS_FILE)


def test_load_request_uses_the_model_path() -> None:
    caller = rest.RestCaller(Target("host"), "a/b c", "infer", b"", {})
    assert caller._request.startswith(f"POST {ModelName('a/b c').path}/infer HTTP/1.1".encode())


def test_internal_error_message_is_the_same_everywhere() -> None:
    assert grpc_status(ValueError())[1] == hooks.FAILED


def test_mlserver_names_have_core_values() -> None:
    assert (codecs.INPUT_PREFIX, codecs.OUTPUT_PREFIX) == (codec_base.INPUT_PREFIX, codec_base.OUTPUT_PREFIX)
    assert model.HANDLER_ATTRIBUTE == handlers._MARK
    assert model_settings.ENV_FILE == environment.ENV_FILE
    assert model_settings.ENV_PREFIX_SETTINGS == image.MLSERVER_PREFIX == environment.MLSERVER_PREFIX
    assert model_settings.SETTINGS_FILE == sources.SETTINGS_FILE
    assert model_settings.MODEL_SETTINGS_FILE == sources.MODEL_SETTINGS_FILE
    assert (stubs.LEGACY_SERVICE, stubs.DIALECT) == (pool.LEGACY_SERVICE, dialects.HEADER)

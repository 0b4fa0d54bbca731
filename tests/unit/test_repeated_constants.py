"""Constants that a plug-in has a copy of, because the extension API does not have them: the copies are right."""

from inferstream import handlers
from inferstream.clients.transport import ModelName, Target
from inferstream.codecs import base as codec_base
from inferstream.codecs.values import base, tensor_objects
from inferstream.compat.blazerpc import errors, hooks, jsonrpc, registry
from inferstream.compat.mlserver import codecs, model, stubs
from inferstream.compat.mlserver import settings as model_settings
from inferstream.dataplane import live_settings
from inferstream.dataplane.regions import SYSTEM_SHARED_MEMORY
from inferstream.jsonrpc import messages as rpc_messages
from inferstream.kafka import messages
from inferstream.keys import credentials, secret
from inferstream.plugins.triton import extension, parameters
from inferstream.protos import dialects, ids, pool, regions
from inferstream.ray import stopping as stopping_of_replicas
from inferstream.record import recording, redaction
from inferstream.repository import fetched, trust
from inferstream.server import stopping
from inferstream.server.grpc.statuses import grpc_status
from inferstream.server.rest.dialects import metadata
from inferstream.server.rest.dialects.documentation import dialect, flat_schema
from inferstream.settings import MODEL_SETTINGS_FILE, SETTINGS_FILE, Settings, environment, sources
from inferstream.telemetry import logs, masks
from inferstream.tools.bench import rest
from inferstream.tools.image import image, secrets


def test_keys_begin_as_logs_and_recordings_expect() -> None:
    assert masks.PREFIX == secret.PREFIX == redaction._PREFIX.decode()


def test_recordings_have_no_header_with_a_key() -> None:
    assert {*credentials.HEADERS, *Settings().credential_headers} <= recording.OF_JSON


def test_log_settings_change_the_loggers_of_the_server() -> None:
    assert {*live_settings.LOGGERS} == {*logs.server_loggers()}


def test_shared_memory_and_final_responses_have_the_names_that_clients_know() -> None:
    assert {*extension.references} == {regions.REGION}
    assert SYSTEM_SHARED_MEMORY in extension.protocol_extensions
    assert parameters.FINAL_RESPONSE == dialects.FINAL_RESPONSE


def test_the_page_reads_the_parameters_that_inputs_have() -> None:
    for name in ("CHOICES", "DEFAULT", "DESCRIPTION", "FORMAT", "NULLABLE"):
        assert getattr(flat_schema, name) == getattr(base, name)
    assert {dialect.ROOT: dialect.ALIVE}.items() <= metadata.ALIVE.items()


def test_one_setting_lets_code_run_wherever_files_come_from() -> None:
    assert fetched.ALLOW == trust.ALLOW


def test_replicas_wait_as_long_as_a_server_takes_to_stop() -> None:
    assert stopping_of_replicas.STOPPING == stopping.AFTERWARDS + stopping.SPARE


def test_ids_and_arrays_have_the_form_of_the_protocol() -> None:
    assert messages.MOST_ID == ids.MAX_ID
    assert jsonrpc.ARRAY == tensor_objects.KEYS
    assert {*tensor_objects.KINDS} <= {*jsonrpc.DATATYPES}
    assert registry.DIMENSIONS == base.DIMENSIONS
    for name in ("PARSE_ERROR", "INVALID_REQUEST", "METHOD_NOT_FOUND", "INVALID_PARAMS", "INTERNAL_ERROR"):
        assert getattr(errors, name) == getattr(rpc_messages, name)


def test_images_have_the_settings_files_of_the_server() -> None:
    assert (secrets.SETTINGS_FILE, image.MODEL_SETTINGS_FILE) == (SETTINGS_FILE, MODEL_SETTINGS_FILE)


def test_a_load_calls_the_path_of_a_model() -> None:
    caller = rest.RestCaller(Target("host"), "a/b c", "infer", b"", {})
    assert caller._request.startswith(f"POST {ModelName('a/b c').path}/infer HTTP/1.1".encode())


def test_an_error_without_details_has_the_same_message_everywhere() -> None:
    assert grpc_status(ValueError())[1] == hooks.FAILED


def test_mlservers_names_have_the_values_of_the_core() -> None:
    assert (codecs.INPUT_PREFIX, codecs.OUTPUT_PREFIX) == (codec_base.INPUT_PREFIX, codec_base.OUTPUT_PREFIX)
    assert model.HANDLER_ATTRIBUTE == handlers._MARK
    assert model_settings.ENV_FILE == environment.ENV_FILE
    assert model_settings.ENV_PREFIX_SETTINGS == image.MLSERVER_PREFIX == environment.MLSERVER_PREFIX
    assert model_settings.SETTINGS_FILE == sources.SETTINGS_FILE
    assert model_settings.MODEL_SETTINGS_FILE == sources.MODEL_SETTINGS_FILE
    assert (stubs.LEGACY_SERVICE, stubs.DIALECT) == (pool.LEGACY_SERVICE, dialects.HEADER)

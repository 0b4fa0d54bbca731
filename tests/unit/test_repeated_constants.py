"""Constants that a plug-in has a copy of, because the extension API does not have them: the copies are right."""

from inferstream.codecs.values import base, tensor_objects
from inferstream.compat.blazerpc import hooks, jsonrpc, registry
from inferstream.dataplane import live_settings
from inferstream.kafka import messages
from inferstream.keys import secret
from inferstream.protos import ids
from inferstream.record import redaction
from inferstream.repository import fetched, trust
from inferstream.server.grpc.statuses import grpc_status
from inferstream.server.rest.dialects import metadata
from inferstream.server.rest.dialects.documentation import dialect, flat_schema
from inferstream.telemetry import logs, masks


def test_keys_begin_as_logs_and_recordings_expect() -> None:
    assert masks.PREFIX == secret.PREFIX == redaction._PREFIX.decode()


def test_log_settings_change_the_loggers_of_the_server() -> None:
    assert live_settings.LOGGERS == logs.OURS


def test_the_page_reads_the_parameters_that_inputs_have() -> None:
    for name in ("CHOICES", "DEFAULT", "DESCRIPTION", "FORMAT", "NULLABLE"):
        assert getattr(flat_schema, name) == getattr(base, name)
    assert {dialect.ROOT: dialect.ALIVE}.items() <= metadata.ALIVE.items()


def test_one_setting_lets_code_run_wherever_files_come_from() -> None:
    assert fetched.ALLOW == trust.ALLOW


def test_ids_and_arrays_have_the_form_of_the_protocol() -> None:
    assert messages.MOST_ID == ids.MAX_ID
    assert jsonrpc.ARRAY == tensor_objects.KEYS
    assert {*tensor_objects.KINDS} <= {*jsonrpc.DATATYPES}
    assert registry.DIMENSIONS == base.DIMENSIONS


def test_an_error_without_details_has_the_same_message_everywhere() -> None:
    assert grpc_status(ValueError())[1] == hooks.FAILED

"""Constants that a plug-in has a copy of, because the extension API does not have them: the copies are right."""

from inferstream.codecs.values import base, tensor_objects
from inferstream.compat.blazerpc import jsonrpc
from inferstream.dataplane import live_settings
from inferstream.kafka import messages
from inferstream.keys import secret
from inferstream.protos import ids
from inferstream.ray import stopping as stopping_of_replicas
from inferstream.record import redaction
from inferstream.server import stopping
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


def test_replicas_wait_as_long_as_a_server_takes_to_stop() -> None:
    assert stopping_of_replicas.STOPPING == stopping.AFTERWARDS + stopping.SPARE


def test_ids_and_arrays_have_the_form_of_the_protocol() -> None:
    assert messages.MOST_ID == ids.MAX_ID
    assert jsonrpc.ARRAY == tensor_objects.KEYS

"""Channel arguments and what they mean, and values of `grpc_engine`."""

import logging
from typing import Any

import pytest

from inferstream.errors import InvalidSettings
from inferstream.server.grpc.options import (
    HEADROOM,
    WITHOUT_EFFECT,
    GrpcOptions,
    channel_arguments,
    check_engine,
    custom_arguments,
    parse_options,
)
from inferstream.settings import Settings


def settings(custom: dict[str, Any] | None = None, **fields: Any) -> Settings:
    return Settings(_custom_grpc_server_settings=custom, **fields)


def options(custom: dict[str, Any] | None = None, **fields: Any) -> GrpcOptions:
    return parse_options(channel_arguments(settings(custom, **fields)))


def test_server_arguments() -> None:
    found = options(max_body_bytes=100)
    assert found == GrpcOptions(
        max_receive=100 + HEADROOM,
        max_send=None,
        max_streams=4096,
        max_header_list=16 * 1024,
        permit_pings_without_streams=True,
        min_ping_interval=5.0,
        reuse_port=False,
    )
    both = options(grpc_max_message_length=7)
    assert (both.max_receive, both.max_send) == (7, 7)
    assert options(frontends=2).reuse_port


@pytest.mark.parametrize(
    ("name", "value", "field", "expected"),
    [
        ("grpc.max_receive_message_length", 5, "max_receive", 5),
        ("grpc.max_receive_message_length", -1, "max_receive", 2**32 - 1),
        ("grpc.max_send_message_length", 5, "max_send", 5),
        ("grpc.max_concurrent_streams", 3, "max_streams", 3),
        ("grpc.max_metadata_size", 9, "max_header_list", 9),
        ("grpc.http2.max_frame_size", 2**20, "max_frame", 2**20),
        ("grpc.http2.lookahead_bytes", 2**20, "stream_window", 2**20),
        ("grpc.keepalive_time_ms", 1500, "keepalive_time", 1.5),
        ("grpc.keepalive_time_ms", 2**31 - 1, "keepalive_time", None),
        ("grpc.keepalive_timeout_ms", 200, "keepalive_timeout", 0.2),
        ("grpc.keepalive_permit_without_calls", False, "permit_pings_without_streams", False),
        ("grpc.http2.min_ping_interval_without_data_ms", 10, "min_ping_interval", 0.01),
        ("grpc.http2.max_ping_strikes", 4, "max_ping_strikes", 4),
        ("grpc.http2.max_ping_strikes", 0, "max_ping_strikes", None),
        ("grpc.max_connection_age_ms", 1000, "max_age", 1.0),
        ("grpc.max_connection_age_ms", 2**31 - 1, "max_age", None),
        ("grpc.max_connection_age_grace_ms", 1000, "max_age_grace", 1.0),
        ("grpc.max_connection_idle_ms", 1000, "max_idle", 1.0),
        ("grpc.so_reuseport", 1, "reuse_port", True),
        ("grpc.default_compression_algorithm", 0, "compression", None),
        ("grpc.default_compression_algorithm", 1, "compression", b"deflate"),
        ("grpc.default_compression_algorithm", 2, "compression", b"gzip"),
    ],
)
def test_supported_channel_arguments(name: str, value: object, field: str, expected: object) -> None:
    assert getattr(options({name: value}), field) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("grpc.max_concurrent_streams", 0),
        ("grpc.max_concurrent_streams", "many"),
        ("grpc.max_receive_message_length", -2),
        ("grpc.keepalive_time_ms", -1),
        ("grpc.keepalive_time_ms", 2**31),
        ("grpc.so_reuseport", 2),
        ("grpc.default_compression_algorithm", 3),
        ("grpc.http2.max_frame_size", 100),
    ],
)
def test_invalid_value_is_named(name: str, value: object) -> None:
    with pytest.raises(
        InvalidSettings, match=f'_custom_grpc_server_settings: "{name}" must be .*got {value!r}$'
    ):
        options({name: value})


def test_unsupported_channel_argument_is_refused() -> None:
    custom = {"ssl_certfile": "x", "grpc.max_metadata_size": 1, "grpc.enable_channelz": 1}
    with pytest.raises(InvalidSettings, match=r'"grpc\.enable_channelz" is unknown to the gRPC port$'):
        options(custom)
    assert custom_arguments(settings(dict.fromkeys(WITHOUT_EFFECT, 1))) == dict.fromkeys(WITHOUT_EFFECT, 1)
    assert parse_options(dict.fromkeys(WITHOUT_EFFECT, 1)) == GrpcOptions()


def test_grpcio_engine_is_refused_and_auto_means_native_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(
        InvalidSettings, match=r"^grpc_engine: grpcio serves no port any more; .*\.grpc_services"
    ):
        check_engine(settings(grpc_engine="grpcio"))
    with caplog.at_level(logging.WARNING, "inferstream.grpc"):
        for engine in ("native", "auto"):
            check_engine(settings(grpc_engine=engine))
    assert [record.getMessage() for record in caplog.records] == [
        "grpc_engine: auto means native, the only engine of the gRPC port; remove the setting"
    ]
    with pytest.raises(ValueError, match="grpc_engine"):
        settings(grpc_engine="rust")


def test_non_channel_argument_is_refused() -> None:
    given = {"grpc.max_concurrent_streams": 3, "grpc.so_reuseport": True, "ssl_certfile": "x"}
    assert custom_arguments(settings(given)) == {"grpc.max_concurrent_streams": 3, "grpc.so_reuseport": 1}
    for wrong in ({"max_workers": 1}, {"grpc.x": 1.5}):
        with pytest.raises(InvalidSettings, match="_custom_grpc_server_settings"):
            custom_arguments(settings(wrong))


def test_errors_name_the_message_size_setting() -> None:
    def said(**custom: int) -> tuple[str, str]:
        options = parse_options(channel_arguments(settings(custom)), custom)
        return options.receive_setting, options.send_setting

    assert said() == ("grpc_max_message_length",) * 2
    receive = "grpc.max_receive_message_length"
    assert said(**{receive: 10}) == (receive, "grpc_max_message_length")

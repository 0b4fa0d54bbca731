"""The options of the gRPC port, converted from grpc-core channel arguments."""

import logging
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from functools import partial

from ...concurrency.inflight import InflightBytes
from ...errors import InvalidSettings
from ...settings import Settings
from ..compression import DEFLATE, GZIP
from ..http2.limits import Http2Limits
from ..tls import OPTIONS as TLS_OPTIONS

logger = logging.getLogger("inferstream.grpc")

SOURCE = "_custom_grpc_server_settings"

HEADROOM = 2**20
"""Additional bytes of a message for everything except its tensors."""

MAX_STREAMS = 4096
"""Maximum concurrent calls on one connection."""

MAX_MESSAGE_SIZE = 2**32 - 1
"""Maximum bytes of a message, because its length prefix has 32 bits."""

MESSAGE_SETTING = "grpc_max_message_length"
"""The setting that limits both message sizes, unless channel arguments override it."""

RECEIVED = "grpc.max_receive_message_length"
SENT = "grpc.max_send_message_length"

UNLIMITED = 2**31 - 1
"""The value that grpc-core treats as an unlimited time."""

Arguments = Mapping[str, str | int]
"""Channel arguments by name."""

Convert = Callable[[str, object], object]
"""Converts the value of a channel argument. Raises InvalidSettings."""


@dataclass(frozen=True, slots=True)
class GrpcOptions(Http2Limits):
    """Limits of the port, in addition to the limits of each HTTP/2 connection.

    Sizes are in bytes and times in seconds. None means no limit. Limits without a channel argument keep the
    HTTP/2 defaults.
    """

    max_receive: int = 4 * 2**20
    """Maximum size of a request message."""
    max_send: int | None = None
    """Maximum size of a response message."""
    reuse_port: bool = True
    """Whether other sockets of the same user may listen on the same port."""
    compression: bytes | None = None
    """Compression of responses for clients that accept it, or None."""
    receive_setting: str = MESSAGE_SETTING
    """The setting that limits request messages, named in errors."""
    send_setting: str = MESSAGE_SETTING
    """The setting that limits response messages, named in errors."""
    inflight: InflightBytes = field(default_factory=InflightBytes, compare=False)
    """Counts the memory of messages, and rejects messages above the limit."""


def check_engine(settings: Settings) -> None:
    """Check the setting `grpc_engine`.

    `auto` logs a warning. `grpcio` raises InvalidSettings, because that port has been removed.
    """
    if settings.grpc_engine == "grpcio":
        raise InvalidSettings(
            "grpc_engine: grpcio serves no port any more; leave the setting out, or embed "
            "Application.grpc_services() in a server of grpcio"
        )
    if settings.grpc_engine == "auto":
        logger.warning("grpc_engine: auto means native, the only engine of the gRPC port; remove the setting")


def channel_arguments(settings: Settings) -> dict[str, str | int]:
    """Return the channel arguments of the port. Arguments in the settings override the defaults.

    Raises InvalidSettings.
    """
    largest = settings.grpc_max_message_length
    arguments: dict[str, str | int] = {
        RECEIVED: largest or settings.max_body_bytes + HEADROOM,
        SENT: largest or -1,
        # Only front-end processes of one server share a port. Otherwise, a port in use is an error.
        "grpc.so_reuseport": int(settings.frontends > 1),
        "grpc.max_concurrent_streams": MAX_STREAMS,
        "grpc.max_metadata_size": 16 * 1024,
        # Allow frequent pings, which keep connections through proxies open.
        "grpc.http2.min_ping_interval_without_data_ms": 5_000,
        "grpc.keepalive_permit_without_calls": 1,
    }
    return arguments | custom_arguments(settings)


def custom_arguments(settings: Settings) -> dict[str, str | int]:
    """Return the channel arguments (`grpc.…`) in the settings, without TLS options.

    Raises InvalidSettings for an unknown argument or option.
    """
    arguments: dict[str, str | int] = {}
    for name, value in (settings.custom_grpc_server_settings or {}).items():
        if name in TLS_OPTIONS:
            continue
        if not name.startswith("grpc."):
            raise InvalidSettings(
                f'{SOURCE}: "{name}" is neither a channel argument (grpc.…) nor a TLS option'
            )
        if name not in KNOWN and name not in WITHOUT_EFFECT:
            raise InvalidSettings(f'{SOURCE}: "{name}" is unknown to the gRPC port')
        if not isinstance(value, str | int):
            raise InvalidSettings(f'{SOURCE}: "{name}" must be a text or a whole number, got {value!r}')
        arguments[name] = int(value) if isinstance(value, bool) else value
    return arguments


def name_receive_limit(settings: Settings) -> str:
    """Return the name that errors use for the limit on request messages if no channel argument sets it.

    If the limit is derived from `max_body_bytes`, the name includes both numbers, because the limit is their
    sum.
    """
    if settings.grpc_max_message_length:
        return MESSAGE_SETTING
    return f"max_body_bytes {settings.max_body_bytes}, and {HEADROOM} for the rest of a message"


def parse_options(
    arguments: Arguments, chosen: Container[str] = (), limited_by: str = MESSAGE_SETTING
) -> GrpcOptions:
    """Convert channel arguments to options. Raises InvalidSettings for an invalid value.

    `chosen` contains the arguments that the settings set. `limited_by` is the name that errors use
    for the limit on request messages if no channel argument sets it.
    """
    values = {
        field: convert(name, arguments[name]) for name, (field, convert) in KNOWN.items() if name in arguments
    }
    values["receive_setting"] = RECEIVED if RECEIVED in chosen else limited_by
    if SENT in chosen:
        values["send_setting"] = SENT
    return GrpcOptions(**values)  # type: ignore[arg-type]  # each function returns the type of its field


def _number(name: str, value: object, least: int = 0, most: int = UNLIMITED) -> int:
    if type(value) is not int or not least <= value <= most:
        raise InvalidSettings(
            f'{SOURCE}: "{name}" must be a whole number from {least} to {most}, got {value!r}'
        )
    return value


def _size(name: str, value: object) -> int | None:
    size = _number(name, value, -1)
    return None if size == -1 else size


def _seconds(name: str, value: object) -> float | None:
    milliseconds = _number(name, value)
    return None if milliseconds == UNLIMITED else milliseconds / 1000


def _interval(name: str, value: object) -> float:
    return _number(name, value) / 1000


def _strikes(name: str, value: object) -> int | None:
    return _number(name, value) or None


def _flag(name: str, value: object) -> bool:
    return bool(_number(name, value, 0, 1))


def _largest(name: str, value: object) -> int:
    return _size(name, value) or MAX_MESSAGE_SIZE


def _compression(name: str, value: object) -> bytes | None:
    return (None, DEFLATE, GZIP)[_number(name, value, 0, 2)]


KNOWN: dict[str, tuple[str, Convert]] = {
    RECEIVED: ("max_receive", _largest),
    SENT: ("max_send", _size),
    "grpc.max_concurrent_streams": ("max_streams", partial(_number, least=1)),
    "grpc.max_metadata_size": ("max_header_list", partial(_number, least=1)),
    "grpc.http2.max_frame_size": ("max_frame", partial(_number, least=2**14, most=2**24 - 1)),
    "grpc.http2.lookahead_bytes": ("stream_window", partial(_number, least=65_535)),
    "grpc.keepalive_time_ms": ("keepalive_time", _seconds),
    "grpc.keepalive_timeout_ms": ("keepalive_timeout", _seconds),
    "grpc.keepalive_permit_without_calls": ("permit_pings_without_streams", _flag),
    "grpc.http2.min_ping_interval_without_data_ms": ("min_ping_interval", _interval),
    "grpc.http2.max_ping_strikes": ("max_ping_strikes", _strikes),
    "grpc.max_connection_age_ms": ("max_age", _seconds),
    "grpc.max_connection_age_grace_ms": ("max_age_grace", _seconds),
    "grpc.max_connection_idle_ms": ("max_idle", _seconds),
    "grpc.so_reuseport": ("reuse_port", _flag),
    "grpc.default_compression_algorithm": ("compression", _compression),
}
"""The supported channel arguments, with the field of `GrpcOptions` and the conversion."""

WITHOUT_EFFECT = (
    # Programs set these together with the keepalive arguments. The port sends no other pings that they could
    # limit. The first was removed from the client proposal, and grpc-core itself ignores the second.
    "grpc.http2.max_pings_without_data",
    "grpc.http2.min_time_between_pings_ms",
    # It measures the required window size. The windows of the port are large from the start.
    "grpc.http2.bdp_probe",
)
"""Channel arguments that are accepted without effect."""

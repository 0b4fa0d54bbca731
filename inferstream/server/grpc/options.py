"""The options of the gRPC port: as channel arguments of grpc-core, and as what they mean here."""

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
"""Bytes that a message may have beside its tensors."""

MAX_STREAMS = 4096
"""Calls in progress on one connection."""

LARGEST_MESSAGE = 2**32 - 1
"""Bytes of a message that its prefix can say."""

MESSAGE_SETTING = "grpc_max_message_length"
"""The setting of both sizes of messages, unless channel arguments have them."""

RECEIVED = "grpc.max_receive_message_length"
SENT = "grpc.max_send_message_length"

UNLIMITED = 2**31 - 1
"""What grpc-core takes for a time without end."""

Arguments = Mapping[str, str | int]
"""Channel arguments by name."""

Convert = Callable[[str, object], object]
"""What the value of a channel argument means. Raises InvalidSettings."""


@dataclass(frozen=True, slots=True)
class GrpcOptions(Http2Limits):
    """Limits of the port: those of each connection, and these. Sizes are in bytes, times in seconds; None is no limit.

    What no channel argument says is as in HTTP/2's limits.
    """

    max_receive: int = 4 * 2**20
    """Size of a request's message."""
    max_send: int | None = None
    """Size of a response's message."""
    reuse_port: bool = True
    """Whether other sockets of this user may listen at the same port."""
    compression: bytes | None = None
    """Compression of responses for clients that take it."""
    receive_setting: str = MESSAGE_SETTING
    """The name of the setting that limits a request's message, for errors."""
    send_setting: str = MESSAGE_SETTING
    """The same for a response's message."""
    inflight: InflightBytes = field(default_factory=InflightBytes, compare=False)
    """Counts messages, and refuses those beyond the limit."""


def check_engine(settings: Settings) -> None:
    """Log a warning for `auto`. Raises InvalidSettings for `grpcio`, whose port is gone."""
    if settings.grpc_engine == "grpcio":
        raise InvalidSettings(
            "grpc_engine: grpcio serves no port any more; leave the setting out, or embed "
            "Application.grpc_services() in a server of grpcio"
        )
    if settings.grpc_engine == "auto":
        logger.warning("grpc_engine: auto means native, the only engine of the port; leave the setting out")


def channel_arguments(settings: Settings) -> dict[str, str | int]:
    """The channel arguments of the port; those that the settings name win. Raises InvalidSettings for wrong ones."""
    largest = settings.grpc_max_message_length
    arguments: dict[str, str | int] = {
        RECEIVED: largest or settings.max_body_bytes + HEADROOM,
        SENT: largest or -1,
        # Only front ends of one server share a port; otherwise a port in use is an error.
        "grpc.so_reuseport": int(settings.frontends > 1),
        "grpc.max_concurrent_streams": MAX_STREAMS,
        "grpc.max_metadata_size": 16 * 1024,
        # Clients may ping often to keep connections through proxies open.
        "grpc.http2.min_ping_interval_without_data_ms": 5_000,
        "grpc.keepalive_permit_without_calls": 1,
    }
    return arguments | custom_arguments(settings)


def custom_arguments(settings: Settings) -> dict[str, str | int]:
    """The channel arguments `grpc.…` of the settings. Raises InvalidSettings for unknown ones and other options.

    Options of TLS are no channel arguments.
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


def limiting(settings: Settings) -> str:
    """The setting that limits a request's message where no channel argument does.

    With its value if the limit is another number, because the envelope of a message has room of its own.
    """
    if settings.grpc_max_message_length:
        return MESSAGE_SETTING
    return f"max_body_bytes {settings.max_body_bytes}, and {HEADROOM} for the rest of a message"


def options_of(
    arguments: Arguments, chosen: Container[str] = (), limited_by: str = MESSAGE_SETTING
) -> GrpcOptions:
    """What channel arguments mean; the settings have those in `chosen`. Raises InvalidSettings for a wrong value."""
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
    return _size(name, value) or LARGEST_MESSAGE


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
"""The channel arguments that the port knows, with the field of `GrpcOptions` and its conversion."""

WITHOUT_EFFECT = (
    # Programs set these beside those of keepalive. The port sends no other pings, and no arguments hold
    # those back: the first was removed from the proposal for clients, and grpc-core itself ignores the second.
    "grpc.http2.max_pings_without_data",
    "grpc.http2.min_time_between_pings_ms",
    # It measures how large a window must be. Those of the port are large from the start.
    "grpc.http2.bdp_probe",
)
"""Channel arguments that the port takes without an effect."""

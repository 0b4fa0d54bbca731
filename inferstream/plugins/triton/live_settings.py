"""Logging and trace settings that Triton clients can read and change while the server runs."""

import logging
from collections.abc import Mapping

from inferstream import Settings
from inferstream.errors import InvalidRequest
from inferstream.ext.calls import PeerQuestion, Peers, ServerParts
from inferstream.plugins.otel.settings import OtelSettings

LogValue = bool | int | str
TraceValue = str | list[str]

LOGGERS = ("inferstream", "mlserver", "blazerpc")
"""The loggers of the server, and the loggers that code written for other servers uses."""

OFF = logging.CRITICAL + 1

LEVELS = {"log_info": logging.INFO, "log_warning": logging.WARNING, "log_error": logging.ERROR}
"""For each Triton switch, the highest logger level at which it is on."""

FIXED: dict[str, LogValue] = {"log_file": "", "log_format": "default"}
"""Log settings that cannot be changed at runtime."""

VERBOSE = "log_verbose_level"

UNTRACED: dict[str, TraceValue] = {
    "trace_mode": "opentelemetry",
    "trace_level": ["OFF"],
    "trace_rate": "1",
    "trace_count": "-1",
    "log_frequency": "0",
    "trace_file": "",
}


class SetLogLevel(PeerQuestion[None]):
    """A message that sets the log level."""

    level: int


class LiveSettings:
    """The logging and trace settings of a server. Changes apply to all front ends until the server exits."""

    def __init__(self, settings: Settings, peers: Peers) -> None:
        self._tracing = bool(settings.section(OtelSettings).tracing_server)
        self._peers = peers
        peers.answers(SetLogLevel, self._set)

    def read_log(self) -> dict[str, LogValue]:
        """Return the log settings in the Triton format."""
        level = logging.getLogger(LOGGERS[0]).getEffectiveLevel()
        switches = {name: level <= least for name, least in LEVELS.items()}
        return {**FIXED, **switches, VERBOSE: int(level <= logging.DEBUG)}

    async def update_log(self, changes: Mapping[str, LogValue]) -> dict[str, LogValue]:
        """Change the log level and return the new settings. Raises InvalidRequest."""
        wanted = self.read_log()
        for name, value in changes.items():
            _check(name, value, wanted)
            wanted[name] = value
        change = SetLogLevel(_level(wanted))
        await self._set(change)
        await self._peers.ask_others(change)
        return self.read_log()

    async def _set(self, change: SetLogLevel) -> None:
        for name in LOGGERS:
            logging.getLogger(name).setLevel(change.level)

    def read_trace(self) -> dict[str, TraceValue]:
        """Return the trace settings in the Triton format."""
        return {**UNTRACED, "trace_level": ["TIMESTAMPS" if self._tracing else "OFF"]}

    def update_trace(self, changes: Mapping[str, TraceValue | None]) -> dict[str, TraceValue]:
        """Validate trace settings.

        Raises InvalidRequest for any change, because tracing is configured at startup.
        """
        now = self.read_trace()
        for name, value in changes.items():
            if name not in now:
                raise InvalidRequest(f'"{name}" is no setting of the trace; these are: {", ".join(now)}')
            if value is not None and value != now[name]:
                raise InvalidRequest(
                    f'"{name}" cannot change while the server runs: tracing_server decides what is traced'
                )
        return now


def build_live_settings(parts: ServerParts) -> LiveSettings:
    """Create the live settings of a server."""
    return LiveSettings(parts.settings, parts.peers)


def _check(name: str, value: object, known: Mapping[str, LogValue]) -> None:
    if name not in known:
        raise InvalidRequest(f'"{name}" is no setting of the log; these are: {", ".join(known)}')
    if name in FIXED and value != FIXED[name]:
        raise InvalidRequest(f'"{name}" cannot change while the server runs: logging_settings decides it')
    if name in LEVELS and not isinstance(value, bool):
        raise InvalidRequest(f'"{name}" must be true or false')
    if name == VERBOSE and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise InvalidRequest(f'"{name}" must be a whole number, 0 or more')


def _level(wanted: Mapping[str, LogValue]) -> int:
    """Return the log level for a combination of switches. Raises InvalidRequest if no level matches it."""
    if wanted[VERBOSE]:
        return logging.DEBUG
    switches = [wanted[name] for name in LEVELS]
    if switches != sorted(switches):
        raise InvalidRequest(
            "the levels are one scale: log_info needs log_warning, and log_warning needs log_error"
        )
    return next((level for name, level in LEVELS.items() if wanted[name]), OFF)

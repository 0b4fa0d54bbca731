"""The logger that runtimes write to, and how lines look."""

import logging
import sys
from typing import Any

from inferstream import Settings
from inferstream.telemetry.logs import JSONFormatter, LineFormatter, apply_configuration

LoggerName = "mlserver"
HANDLER = "mlserver.stdout"
logger = logging.getLogger(LoggerName)
LOGGERS = (logger, logging.getLogger("inferstream"))


class ModelLoggerFormatter(logging.Formatter):
    """Lines, or objects of JSON, that name the model whose code is running."""

    def __init__(self, settings: Settings | None) -> None:
        super().__init__()
        self.use_structured_logging = settings is not None and settings.use_structured_logging
        self._formatter = JSONFormatter() if self.use_structured_logging else LineFormatter()

    def format(self, record: logging.LogRecord) -> str:
        return self._formatter.format(record)


def get_logger() -> logging.Logger:
    """The same."""
    return logger


def configure_logger(settings: Settings | None = None) -> logging.Logger:
    """Have MLServer's logger and ours write to standard output; the root logger and its handlers stay as they are."""
    chosen = settings if settings is not None else Settings()
    given = logging.getLogger().handlers
    served = any(isinstance(handler.formatter, LineFormatter | JSONFormatter) for handler in given)
    if not served:  # a server writes these loggers' lines itself
        handler = next((known for known in logger.handlers if known.name == HANDLER), None)
        if handler is None:
            handler = logging.StreamHandler(sys.stdout)
            handler.name = HANDLER
            for ours in LOGGERS:
                ours.addHandler(handler)
        handler.setFormatter(ModelLoggerFormatter(chosen))
    for ours in LOGGERS:
        ours.setLevel(logging.DEBUG if chosen.debug else logging.INFO)
    if chosen.logging_settings:
        apply_configuration(chosen.logging_settings)
    return logger


def apply_logging_file(logging_settings: str | dict[str, Any]) -> None:
    """Apply a `logging.config` file or dictionary."""
    apply_configuration(logging_settings)


__all__ = [
    "LoggerName",
    "ModelLoggerFormatter",
    "apply_logging_file",
    "configure_logger",
    "get_logger",
    "logger",
]

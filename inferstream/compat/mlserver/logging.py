"""The logger that runtimes write to, and how lines look."""

import logging
from typing import Any

from inferstream import Settings
from inferstream.telemetry.logs import JSONFormatter, LineFormatter, apply_configuration, configure_logging

LoggerName = "mlserver"
logger = logging.getLogger(LoggerName)


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
    """Set up every logger of the process as the server does."""
    chosen = settings or Settings()
    configure_logging(chosen.debug, chosen.use_structured_logging, chosen.logging_settings)
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

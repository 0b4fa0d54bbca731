"""The logger that runtimes write to."""

import logging

LoggerName = "mlserver"
logger = logging.getLogger(LoggerName)


def get_logger() -> logging.Logger:
    """The same."""
    return logger


__all__ = ["LoggerName", "get_logger", "logger"]

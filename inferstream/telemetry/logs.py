"""One log record per event: a line or a JSON object, with the model's name where its code is running."""

import json
import logging
import logging.config
import sys
from pathlib import Path
from typing import Any

from .context import model_name_var, model_version_var

_LEVELS = {True: logging.DEBUG, False: logging.INFO}


class LineFormatter(logging.Formatter):
    """`time [logger][model:version] LEVEL - message`, control characters escaped."""

    def format(self, record: logging.LogRecord) -> str:
        model = model_name_var.get()
        if model:
            version = model_version_var.get()
            model = f"[{model}:{version}]" if version else f"[{model}]"
        message = _escaped(record.getMessage())
        line = f"{self.formatTime(record)} [{record.name}]{model} {record.levelname} - {message}"
        if record.exc_info:
            # A traceback is ours and many lines long; every line is indented, so none can pass for a record.
            trace = self.formatException(record.exc_info)
            line += "\n" + "\n".join(f"  {_escaped(part)}" for part in trace.splitlines())
        return line


class JSONFormatter(logging.Formatter):
    """One JSON object per record."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": self.formatTime(record),
            "name": record.name,
            "level": record.levelname,
            "message": record.getMessage(),
        }
        if model := model_name_var.get():
            fields["model_name"] = model
        if version := model_version_var.get():
            fields["model_version"] = version
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=True)


def _escaped(text: str) -> str:
    """Nobody who can write into a message can start a line of their own or steer a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def configure_logging(debug: bool, structured: bool, custom: str | dict[str, Any] | None) -> None:
    """Set up every logger of the process; `custom` is a `logging.config` file or dictionary put on top.

    Raises ValueError, OSError or KeyError when the custom configuration is wrong.
    """
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JSONFormatter() if structured else LineFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for name in ("inferstream", "mlserver"):
        logging.getLogger(name).setLevel(_LEVELS[debug])
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers[:] = []
        logger.propagate = True
        logger.setLevel(logging.WARNING)
    if custom:
        apply_configuration(custom)


def apply_configuration(custom: str | dict[str, Any]) -> None:
    """Put a `logging.config` file or dictionary on top. Raises ValueError, OSError or KeyError when it is wrong."""
    if isinstance(custom, dict):
        logging.config.dictConfig(custom)
    else:
        path = Path(custom)
        if path.suffix == ".json":
            logging.config.dictConfig(json.loads(path.read_text("utf-8")))
        else:
            logging.config.fileConfig(path, disable_existing_loggers=False)

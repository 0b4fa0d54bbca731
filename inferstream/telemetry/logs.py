"""Formats logs as lines or JSON objects, with the model and call of the running code."""

import json
import logging
import logging.config
import sys
import threading
import traceback
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias

from ..extensions.discovery import extensions
from .context import call_fields, model_var
from .masks import mask_keys
from .tracebacks import RaisedElsewhere, format_own_frames

ExceptionInfo: TypeAlias = (
    tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
)

OWN = "inferstream"
"""The name of the server's logger."""

_basic_config = logging.basicConfig

_server_handlers: list[logging.Handler] = []
"""The handlers of the root logger, unless model code replaced them."""

_SAME = [("mlserver", "inferstream"), ("mlserver.parallel", "inferstream.worker")] + [
    (f"mlserver.{part}", f"inferstream.{part}") for part in ("rest", "grpc", "kafka")
]
"""MLServer loggers, each with the inferstream logger for the same records."""


def server_loggers() -> tuple[str, ...]:
    """Return the loggers of the server, including loggers that plug-ins add for models of other servers."""
    return OWN, *(name for extension in extensions().values() for name in extension.loggers)


class LogFormatter(logging.Formatter):
    """Base class of the log formats, which mask secrets. Use `of` to create one."""

    @staticmethod
    def of(structured: bool) -> "LogFormatter":
        """Return a formatter for JSON objects if `structured`, otherwise for lines."""
        return JSONFormatter() if structured else LineFormatter()


class LineFormatter(LogFormatter):
    """`time [logger][model:version] LEVEL - message`, with control characters escaped.

    `[trace_id=… span_id=… request_id=…]` is appended if the call has a span or an X-Request-Id.
    """

    def format(self, record: logging.LogRecord) -> str:
        record_text = f"{self.head(record)}{escape(record.getMessage())}"
        if fields := call_fields():  # at the end, because clients choose the request id
            record_text += f" [{' '.join(f'{name}={value}' for name, value in fields.items())}]"
        if record.exc_info:
            # Indent each line of a traceback, so that none looks like a record.
            trace = self.formatException(record.exc_info)
            record_text += "\n" + "\n".join(f"  {escape(part)}" for part in trace.splitlines())
        return mask_keys(record_text)  # clients may send a key as an id or model name

    def head(self, record: logging.LogRecord) -> str:
        """Return the part before the message."""
        model, version = model_var.get()
        if model:
            model = f"[{model}:{version}]" if version else f"[{model}]"
        return f"{self.formatTime(record)} [{record.name}]{model} {record.levelname} - "

    def formatException(self, ei: ExceptionInfo) -> str:  # noqa: N802  # overrides a method of logging
        """Return the traceback with only the frames of user code, or all frames at debug level."""
        return super().formatException(ei) if ei[1] is None else logged_traceback(ei[1])


class JSONFormatter(LogFormatter):
    """Formats records as JSON objects. `extra={"fields": {...}}` adds fields to the object."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC)
        fields: dict[str, Any] = {
            "time": time.isoformat(timespec="milliseconds"),
            "name": record.name,
            "level": record.levelname,
            "message": record.getMessage(),
        }
        model, version = model_var.get()
        if model:
            fields["model_name"] = model
        if version:
            fields["model_version"] = version
        fields |= call_fields()
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        more = getattr(record, "fields", None)
        if isinstance(more, dict):
            fields = {**more, **fields}
        return mask_keys(json.dumps(fields, ensure_ascii=True, default=str))


def logged_traceback(error: BaseException) -> str:
    """Return the traceback of an error in the format used in logs."""
    whole = logging.getLogger(OWN).isEnabledFor(logging.DEBUG)
    if not whole or isinstance(error, RaisedElsewhere):
        return format_own_frames(error)
    return "".join(traceback.format_exception(error)).rstrip("\n")


def escape(text: str) -> str:
    """Escape control characters, so that a message cannot start a new line or control a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def configure_logging(level: str, structured: bool, custom: str | dict[str, Any] | None) -> None:
    """Configure all loggers of the process. `level` is the lowest level of the server's own loggers.

    `custom` is a `logging.config` file or dictionary, applied last.

    Raises the errors of `logging.config` if the custom configuration is invalid.
    """
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(LogFormatter.of(structured))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for name in server_loggers():
        logging.getLogger(name).setLevel(level)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers[:] = []
        logger.propagate = True
        logger.setLevel(logging.WARNING)
    if structured:
        logging.captureWarnings(True)
        sys.excepthook = log_uncaught
        threading.excepthook = lambda args: log_uncaught(
            args.exc_type, args.exc_value or args.exc_type(), args.exc_traceback
        )
    if custom:
        before = [(_state(theirs), _state(ours)) for theirs, ours in _SAME]
        apply_configuration(custom)
        for (theirs, ours), was in zip(_SAME, before, strict=True):
            # The configuration of an MLServer logger also applies to ours, unless ours is configured too.
            if _state(theirs) != was[0] and _state(ours) == was[1]:
                _set_state(ours, *_state(theirs))
    _server_handlers[:] = root.handlers
    logging.basicConfig = partial(_configure_for_model, structured)


def keep_server_log() -> None:
    """Restore the server's log after model code has configured `logging`.

    The model's configuration is kept.
    """
    root, names = logging.getLogger(), server_loggers()
    ours = [
        logger
        for name, logger in [*root.manager.loggerDict.items()]
        if isinstance(logger, logging.Logger) and name.partition(".")[0] in names
    ]
    if all(logger.disabled for logger in ours):  # disabled by `disable_existing_loggers`, not by name
        for logger in ours:
            logger.disabled = False
    if _server_handlers and not any(handler in root.handlers for handler in _server_handlers):
        for logger in map(logging.getLogger, names):
            if not logger.handlers:
                logger.handlers[:] = _server_handlers
                logger.propagate = False


def _configure_for_model(structured: bool, **options: Any) -> None:
    """Replace `logging.basicConfig`, treating a root logger with only the server's handlers as unconfigured.

    The server's handler is kept if only a level is passed. With structured logging, it is also kept if a
    format is passed, because each line must remain a JSON object.
    """
    root = logging.getLogger()
    if root.handlers == _server_handlers and not options.get("force"):
        if options.keys() & (
            {"filename", "stream", "handlers"} if structured else options.keys() - {"level"}
        ):
            options["force"] = True
        elif options.get("level") is not None:
            root.setLevel(options["level"])
    _basic_config(**options)
    keep_server_log()


def log_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Log an uncaught exception as one record."""
    if not issubclass(kind, SystemExit):
        logging.getLogger(OWN).critical("uncaught exception", exc_info=(kind, error, trace))


def apply_configuration(custom: str | dict[str, Any]) -> None:
    """Apply a dictionary or a `logging.config` file (`.json` or ini).

    Raises the errors of `logging.config`.
    """
    path = None if isinstance(custom, dict) else Path(custom)
    if path is not None and path.suffix != ".json":
        path.stat()  # raises if missing: Python 3.11 treats a missing file as an empty one
        logging.config.fileConfig(path, disable_existing_loggers=False)
        return
    configuration = custom if path is None else json.loads(path.read_text("utf-8-sig"))
    if not isinstance(configuration, dict):
        raise ValueError("it must hold a JSON object")
    # By default, Python disables every logger that the configuration does not contain.
    logging.config.dictConfig({"disable_existing_loggers": False, **configuration})


def _state(name: str) -> tuple[int, bool, list[logging.Handler]]:
    logger = logging.getLogger(name)
    return logger.level, logger.propagate, [*logger.handlers]


def _set_state(name: str, level: int, propagate: bool, handlers: list[logging.Handler]) -> None:
    logger = logging.getLogger(name)
    logger.setLevel(level)
    logger.propagate = propagate
    logger.handlers[:] = handlers

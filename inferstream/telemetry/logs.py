"""Log records as lines or JSON objects, with the model and the call whose code is running."""

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

from ..extensions import extensions
from .context import call_fields, model_var
from .masks import without_keys
from .tracebacks import RaisedElsewhere, own_frames

ExceptionInfo: TypeAlias = (
    tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
)

OWN = "inferstream"
"""The logger of the server."""

_basic_config = logging.basicConfig

_server_handlers: list[logging.Handler] = []
"""The root logger's handlers, unless model code has replaced them."""

_LEVELS = {True: logging.DEBUG, False: logging.INFO}

_SAME = [("mlserver", "inferstream"), ("mlserver.parallel", "inferstream.worker")] + [
    (f"mlserver.{part}", f"inferstream.{part}") for part in ("rest", "grpc", "kafka")
]
"""MLServer's loggers, and our loggers of the same records."""


def server_loggers() -> tuple[str, ...]:
    """The loggers of the server: its own, and those that plug-ins bring for models of other servers."""
    return OWN, *(name for extension in extensions().values() for name in extension.loggers)


class LogFormatter(logging.Formatter):
    """The format of the server's log, without secrets: `of` makes one."""

    @staticmethod
    def of(structured: bool) -> "LogFormatter":
        """Formats records as JSON objects if `structured`, else as lines."""
        return JSONFormatter() if structured else LineFormatter()


class LineFormatter(LogFormatter):
    """`time [logger][model:version] LEVEL - message`, with control characters escaped.

    Lines of a call that has a span or an X-Request-Id end with `[trace_id=… span_id=… request_id=…]`.
    """

    def format(self, record: logging.LogRecord) -> str:
        record_text = f"{self.head(record)}{escaped(record.getMessage())}"
        if fields := call_fields():  # at the end, because clients choose the request's id
            record_text += f" [{' '.join(f'{name}={value}' for name, value in fields.items())}]"
        if record.exc_info:
            # A traceback has many lines. Each is indented, so that none looks like a record.
            trace = self.formatException(record.exc_info)
            record_text += "\n" + "\n".join(f"  {escaped(part)}" for part in trace.splitlines())
        return without_keys(record_text)  # clients may send one as an id, or as the name of a model

    def head(self, record: logging.LogRecord) -> str:
        """All that precedes the message."""
        model, version = model_var.get()
        if model:
            model = f"[{model}:{version}]" if version else f"[{model}]"
        return f"{self.formatTime(record)} [{record.name}]{model} {record.levelname} - "

    def formatException(self, ei: ExceptionInfo) -> str:  # noqa: N802  # logging's own name
        """The traceback with the frames of the user's code, or the whole one at debug level."""
        return super().formatException(ei) if ei[1] is None else logged_traceback(ei[1])


class JSONFormatter(LogFormatter):
    """One JSON object. A record's attribute `fields`, as of `extra={"fields": {...}}`, adds fields to it."""

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
        return without_keys(json.dumps(fields, ensure_ascii=True, default=str))


def logged_traceback(error: BaseException) -> str:
    """The traceback of an error as the log has it."""
    whole = logging.getLogger(OWN).isEnabledFor(logging.DEBUG)
    if not whole or isinstance(error, RaisedElsewhere):
        return own_frames(error)
    return "".join(traceback.format_exception(error)).rstrip("\n")


def escaped(text: str) -> str:
    """Escape text, so that a message cannot start a line or control a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def configure_logging(debug: bool, structured: bool, custom: str | dict[str, Any] | None) -> None:
    """Set up every logger of the process. `custom` is a `logging.config` file or dictionary, applied last.

    Raises the errors of `logging.config` for a wrong custom configuration.
    """
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(LogFormatter.of(structured))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for name in server_loggers():
        logging.getLogger(name).setLevel(_LEVELS[debug])
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
            # A configuration of MLServer's loggers applies to ours, unless it names ours too.
            if _state(theirs) != was[0] and _state(ours) == was[1]:
                _set_state(ours, *_state(theirs))
    _server_handlers[:] = root.handlers
    logging.basicConfig = partial(_configure_for_model, structured)


def keep_server_log() -> None:
    """Let the server's own log go on after model code has configured `logging`, whose configuration stays."""
    root, names = logging.getLogger(), server_loggers()
    ours = [
        logger
        for name, logger in [*root.manager.loggerDict.items()]
        if isinstance(logger, logging.Logger) and name.partition(".")[0] in names
    ]
    if all(logger.disabled for logger in ours):  # by `disable_existing_loggers`, not by name
        for logger in ours:
            logger.disabled = False
    if _server_handlers and not any(handler in root.handlers for handler in _server_handlers):
        for logger in map(logging.getLogger, names):
            if not logger.handlers:
                logger.handlers[:] = _server_handlers
                logger.propagate = False


def _configure_for_model(structured: bool, **options: Any) -> None:
    """`logging.basicConfig`, as if the root logger had no handler when it has only the server's.

    A level alone, and with structured logging a format, leave the server's handler: each of its lines is an object.
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
    """Log an exception that ends its thread as one record."""
    if not issubclass(kind, SystemExit):
        logging.getLogger(OWN).critical("uncaught exception", exc_info=(kind, error, trace))


def apply_configuration(custom: str | dict[str, Any]) -> None:
    """Apply a dictionary, or a `logging.config` file: `.json` or ini. Raises the errors of `logging.config`."""
    path = None if isinstance(custom, dict) else Path(custom)
    if path is not None and path.suffix != ".json":
        path.stat()  # Python 3.11 takes a missing file for an empty one
        logging.config.fileConfig(path, disable_existing_loggers=False)
        return
    configuration = custom if path is None else json.loads(path.read_text("utf-8-sig"))
    if not isinstance(configuration, dict):
        raise ValueError("it must hold a JSON object")
    # Python's default silences every logger that the configuration does not name.
    logging.config.dictConfig({"disable_existing_loggers": False, **configuration})


def _state(name: str) -> tuple[int, bool, list[logging.Handler]]:
    logger = logging.getLogger(name)
    return logger.level, logger.propagate, [*logger.handlers]


def _set_state(name: str, level: int, propagate: bool, handlers: list[logging.Handler]) -> None:
    logger = logging.getLogger(name)
    logger.setLevel(level)
    logger.propagate = propagate
    logger.handlers[:] = handlers

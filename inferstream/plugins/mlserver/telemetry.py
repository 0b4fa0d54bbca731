"""Logging, metrics and tracing for model code."""

import json
import logging
import logging.config
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import Token
from pathlib import Path
from typing import TYPE_CHECKING, Any

import inferstream
from inferstream import ModelSettings, Settings
from inferstream.errors import ModelError as MLServerError
from inferstream.ext.telemetry import LogFormatter, model_var

if TYPE_CHECKING:
    from prometheus_client import Histogram


LoggerName = "mlserver"
HANDLER = "mlserver.stdout"
logger = logging.getLogger(LoggerName)
LOGGERS = (logger, logging.getLogger("inferstream"))
GRPC, KAFKA, METRICS, PARALLEL, REST = map(logger.getChild, ("grpc", "kafka", "metrics", "parallel", "rest"))


class RunningModelVar:
    """The name or version of the running model, with the methods of a context variable."""

    def __init__(self, name: str, part: int) -> None:
        self.name = name
        self._part = part

    def get(self, default: str = "") -> str:
        return model_var.get()[self._part] or default

    def set(self, value: str) -> Token[tuple[str, str]]:
        name, version = model_var.get()
        return model_var.set((name, value) if self._part else (value, version))

    def reset(self, token: Token[tuple[str, str]]) -> None:
        model_var.reset(token)


model_name_var = RunningModelVar("model_name", 0)
model_version_var = RunningModelVar("model_version", 1)


class ModelLoggerFormatter(logging.Formatter):
    """Formats log records as lines or JSON, with the name of the running model in `record.model`."""

    def __init__(self, settings: Settings | None) -> None:
        super().__init__()
        self.use_structured_logging = settings is not None and settings.use_structured_logging
        self._formatter = LogFormatter.of(self.use_structured_logging)

    def format(self, record: logging.LogRecord) -> str:
        record.model = self._model()  # for other formatters that use `%(model)s`
        return self._formatter.format(record)

    def _model(self) -> str:
        name, version = model_name_var.get(), model_version_var.get()
        if not name:
            return ""
        if not self.use_structured_logging:
            return f"[{name}:{version}]" if version else f"[{name}]"
        fields = {"model_name": name, "model_version": version} if version else {"model_name": name}
        return "".join(f', "{key}": {json.dumps(value)}' for key, value in fields.items())


def get_logger() -> logging.Logger:
    return logger


def get_log_level() -> int:
    return logger.getEffectiveLevel()


def configure_logger(settings: Settings | None = None) -> logging.Logger:
    """Configure the `mlserver` and `inferstream` loggers to write to stdout. The root logger is unchanged."""
    chosen = settings if settings is not None else Settings()
    given = logging.getLogger().handlers
    served = any(isinstance(handler.formatter, LogFormatter) for handler in given)
    if not served:  # Otherwise the server's handlers process these loggers.
        handler = next((known for known in logger.handlers if known.name == HANDLER), None)
        if handler is None:
            handler = logging.StreamHandler(sys.stdout)
            handler.name = HANDLER
            for ours in LOGGERS:
                ours.addHandler(handler)
        handler.setFormatter(ModelLoggerFormatter(chosen))
    for ours in LOGGERS:
        ours.setLevel(chosen.lowest_log_level)
    if chosen.logging_settings:
        apply_logging_file(chosen.logging_settings)
    return logger


def apply_logging_file(logging_settings: str | dict[str, Any]) -> None:
    """Apply a dictionary or a `logging.config` file (JSON or ini). Raises the errors of `logging.config`."""
    if isinstance(logging_settings, str) and not logging_settings.endswith(".json"):
        Path(logging_settings).stat()  # Python 3.11 treats a missing file as an empty one.
        logging.config.fileConfig(logging_settings, disable_existing_loggers=False)
        return
    configuration = logging_settings
    if isinstance(configuration, str):
        configuration = json.loads(Path(configuration).read_text("utf-8-sig"))
    if not isinstance(configuration, dict):
        raise ValueError("it must hold a JSON object")
    # By default, Python disables all loggers that the configuration does not name.
    logging.config.dictConfig({"disable_existing_loggers": False, **configuration})


class InvalidModelContext(MLServerError):
    """Code outside of a model logged a metric."""

    def __init__(self) -> None:
        super().__init__("Metrics can only be registered and logged by a model's own code", 500)


class MetricNotFound(MLServerError):
    """No metric has this name."""

    def __init__(self, metric_name: str, collector: object = None) -> None:
        super().__init__(f"No metric found with name '{metric_name}'", 500)


REGISTERED: "dict[str, Histogram]" = {}
"""The histograms that model code has registered, by name."""

QUEUE_METRIC_NAME = "parallel_request_queue"
SELDON_MODEL_NAME_LABEL = "model_name"
SELDON_MODEL_VERSION_LABEL = "model_version"


def register(name: str, description: str) -> "Histogram":
    """Return the histogram with this name, which is created on the first call."""
    return REGISTERED.setdefault(name, inferstream.register(name, description))


def log(**metrics: float) -> None:
    """Record one value per metric for the calling model. Raises InvalidModelContext."""
    _get_labels_from_context()
    inferstream.log(**metrics)
    for name in metrics:
        register(name, "")  # It exists by now.


def _get_labels_from_context() -> dict[str, str]:
    name = model_name_var.get()
    if not name:
        raise InvalidModelContext
    return {SELDON_MODEL_NAME_LABEL: name, SELDON_MODEL_VERSION_LABEL: model_version_var.get()}


PROMETHEUS_MULTIPROC_DIR = "PROMETHEUS_MULTIPROC_DIR"
"""The prometheus_client environment variable for the folder that processes share."""


def configure_metrics(settings: Settings) -> None:
    """Do nothing: the server collects the metrics of worker processes itself."""


@contextmanager
def model_context(model_settings: ModelSettings) -> Iterator[None]:
    """Run the block in the context of a model."""
    token = model_var.set((model_settings.name, model_settings.version or ""))
    try:
        yield
    finally:
        model_var.reset(token)


def get_tracer_provider(settings: Settings) -> Any:
    """Return the tracer provider of the process. The server sets it if its settings name a collector."""
    from opentelemetry import trace  # Imported lazily: only servers with tracing install it.

    return trace.get_tracer_provider()

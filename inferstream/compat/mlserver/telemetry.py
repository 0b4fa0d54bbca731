"""Log lines, metrics and traces of model code."""

import json
import logging
import sys
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from inferstream import ModelSettings, Settings
from inferstream.errors import ModelError as MLServerError
from inferstream.telemetry import context, custom
from inferstream.telemetry.context import model_name_var, model_version_var
from inferstream.telemetry.logs import JSONFormatter, LineFormatter, apply_configuration

if TYPE_CHECKING:
    from prometheus_client import Histogram


LoggerName = "mlserver"
HANDLER = "mlserver.stdout"
logger = logging.getLogger(LoggerName)
LOGGERS = (logger, logging.getLogger("inferstream"))
GRPC, KAFKA, METRICS, PARALLEL, REST = map(logger.getChild, ("grpc", "kafka", "metrics", "parallel", "rest"))


class ModelLoggerFormatter(logging.Formatter):
    """Formats lines or JSON objects, with the name of the model that logs. Sets `record.model` to that part."""

    def __init__(self, settings: Settings | None) -> None:
        super().__init__()
        self.use_structured_logging = settings is not None and settings.use_structured_logging
        self._formatter = JSONFormatter() if self.use_structured_logging else LineFormatter()

    def format(self, record: logging.LogRecord) -> str:
        record.model = self._model()  # other formatters show it by `%(model)s`
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


def configure_logger(settings: Settings | None = None) -> logging.Logger:
    """Make MLServer's logger and ours write to standard output. The root logger and its handlers do not change."""
    chosen = settings if settings is not None else Settings()
    given = logging.getLogger().handlers
    served = any(isinstance(handler.formatter, LineFormatter | JSONFormatter) for handler in given)
    if not served:  # otherwise a server writes the lines of these loggers
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


class InvalidModelContext(MLServerError):
    """Code outside of a model logged a metric."""

    def __init__(self) -> None:
        super().__init__("Metrics can only be registered and logged by a model's own code", 500)


class MetricNotFound(MLServerError):
    """There is no metric of this name."""

    def __init__(self, metric_name: str, collector: object = None) -> None:
        super().__init__(f"No metric found with name '{metric_name}'", 500)


QUEUE_METRIC_NAME = "parallel_request_queue"
SELDON_MODEL_NAME_LABEL = "model_name"
SELDON_MODEL_VERSION_LABEL = "model_version"


def register(name: str, description: str) -> "Histogram":
    """The histogram of this name. The first call creates it."""
    return custom.register(name, description)


def log(**metrics: float) -> None:
    """Record one value per metric for the model that calls. Raises InvalidModelContext."""
    _get_labels_from_context()
    custom.log(**metrics)


def _get_labels_from_context() -> dict[str, str]:
    name = model_name_var.get()
    if not name:
        raise InvalidModelContext
    return {SELDON_MODEL_NAME_LABEL: name, SELDON_MODEL_VERSION_LABEL: model_version_var.get()}


PROMETHEUS_MULTIPROC_DIR = "PROMETHEUS_MULTIPROC_DIR"
"""prometheus_client's variable for the folder that processes share."""


def configure_metrics(settings: Settings) -> None:
    """Does nothing: the server collects the metrics of worker processes itself."""


def model_context(model_settings: ModelSettings) -> AbstractContextManager[None]:
    """Run the block as code of this model."""
    return context.model_context(model_settings.name, model_settings.version)


def get_tracer_provider(settings: Settings) -> Any:
    """The process's provider of tracers. It is the server's if its settings name a collector."""
    from opentelemetry import trace  # late: only servers that trace have it

    return trace.get_tracer_provider()

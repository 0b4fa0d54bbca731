"""Errors with the names, messages and statuses of MLServer, for model code that raises or catches them."""

from inferstream import MLModel
from inferstream.errors import ModelError as MLServerError


class InferenceError(MLServerError):
    """The inference failed."""

    def __init__(self, msg: str) -> None:
        super().__init__(msg, 400)


class ModelParametersMissing(MLServerError):
    """A runtime needs `parameters` that are missing from the settings."""

    def __init__(self, model_name: str) -> None:
        super().__init__(f"Parameters missing for model {model_name}", 400)


class ModelLoadError(MLServerError):
    """A model cannot be loaded."""

    def __init__(self, msg: str) -> None:
        super().__init__(msg, 422)


class ModelValidationError(MLServerError):
    """The settings of a model are invalid."""

    def __init__(self, msg: str) -> None:
        super().__init__(msg, 422)


class ModelUnloadError(MLServerError):
    """A model cannot be unloaded."""

    def __init__(self, msg: str) -> None:
        super().__init__(msg, 500)


class InvalidBatchingMethod(MLServerError):
    """A method cannot be batched. Never raised by this server, which batches outside the model."""

    def __init__(self, method_name: str, reason: str | None = None) -> None:
        super().__init__(f"Method {method_name} cannot be batched" + (f": {reason}" if reason else ""))


class InvalidMessageHeaders(MLServerError):
    """A Kafka message lacks a required header."""

    def __init__(self, missing_header: str) -> None:
        super().__init__(f"The message has no header '{missing_header}'", 422)


class EnvironmentNotFound(MLServerError):
    """No worker has the environment that a model needs."""

    def __init__(self, model: MLModel, env_hash: str) -> None:
        super().__init__(f"Environment {env_hash} of model {model.name} was not found", 500)


class WorkerStop(MLServerError):
    """A worker process has exited."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(f"Worker process ended with exit code {exit_code}", 500)


class WorkerError(MLServerError):
    """Model code failed in a worker process."""

    def __init__(self, exc: BaseException) -> None:
        super().__init__(
            f"{type(exc).__module__}.{type(exc).__name__}: {exc}", getattr(exc, "status_code", 500)
        )

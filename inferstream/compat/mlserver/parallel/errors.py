"""Errors of worker processes."""

from inferstream import MLModel

from ..errors import MLServerError


class EnvironmentNotFound(MLServerError):
    """No worker has the environment that a model needs."""

    def __init__(self, model: MLModel, env_hash: str) -> None:
        super().__init__(f"Environment {env_hash} of model {model.name} was not found", 500)


class WorkerStop(MLServerError):
    """A worker process has ended."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(f"Worker process ended with exit code {exit_code}", 500)


class WorkerError(MLServerError):
    """Model code has failed in a worker process."""

    def __init__(self, exc: BaseException) -> None:
        super().__init__(
            f"{type(exc).__module__}.{type(exc).__name__}: {exc}", getattr(exc, "status_code", 500)
        )


__all__ = ["EnvironmentNotFound", "WorkerError", "WorkerStop"]

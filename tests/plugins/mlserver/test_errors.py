"""Errors under MLServer's names, with its messages and statuses."""

import pytest

from inferstream import ModelSettings
from inferstream.errors import ModelError
from inferstream.ext.hosting import install_aliases

install_aliases()

from mlserver import MLModel  # type: ignore[import-not-found]
from mlserver.batching.hooks import InvalidBatchingMethod  # type: ignore[import-not-found]
from mlserver.errors import InferenceError, MLServerError, ModelParametersMissing  # type: ignore[import-not-found]
from mlserver.kafka.errors import InvalidMessageHeaders  # type: ignore[import-not-found]
from mlserver.parallel.errors import (  # type: ignore[import-not-found]
    EnvironmentNotFound,
    WorkerError,
    WorkerStop,
)


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (InferenceError("no"), 400, "no"),
        (ModelParametersMissing("m"), 400, "Parameters missing for model m"),
        (InvalidBatchingMethod("predict"), 400, "Method predict cannot be batched"),
        (InvalidBatchingMethod("predict", "why"), 400, "Method predict cannot be batched: why"),
        (InvalidMessageHeaders("h"), 422, "The message has no header 'h'"),
        (WorkerStop(3), 500, "Worker process ended with exit code 3"),
        (WorkerError(ValueError("x")), 500, "builtins.ValueError: x"),
        (WorkerError(ModelError("x", 404)), 404, "inferstream.errors.ModelError: x"),
    ],
)
def test_error_has_mlserver_status_and_message(error: ModelError, status: int, message: str) -> None:
    assert isinstance(error, MLServerError)
    assert (error.status_code, error.message) == (status, message)


def test_unknown_environment_is_named() -> None:
    model = MLModel(ModelSettings(name="m", implementation="a.B"))
    assert EnvironmentNotFound(model, "abc").message == "Environment abc of model m was not found"

"""Responses of the MLflow scoring server, which MLflow itself builds."""

import json
import logging
from http import HTTPStatus
from types import NoneType
from typing import Any

logger = logging.getLogger("inferstream.mlflow")

ScoringResponse = tuple[int, str, str]
"""The status, media type and body of a response."""


class _CalledModel:
    """A model for the scoring server, which hides the errors of `predict`."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.metadata = model.metadata
        self.is_called = False
        self.error: Exception | None = None

    def predict(self, data: Any, params: Any = None) -> Any:
        self.is_called = True
        try:
            return self._model.predict(data, params=params)
        except Exception as error:
            self.error = error
            raise


def score_body(
    server: Any, exception: type[Any], artefact: Any, body: bytes, media_type: str
) -> ScoringResponse:
    """Return the response of the MLflow scoring server to a body.

    `server` is the module `mlflow.pyfunc.scoring_server`, and `exception` is MlflowException. The tracebacks
    that MLflow would send are logged. Raises the errors that are not the client's.
    """
    model = _CalledModel(artefact)
    try:
        response = server.invocations(body, media_type, model, model.metadata.get_input_schema())
        return response.status, response.mimetype, response.response
    except exception as error:
        status, code, message = error.get_http_status_code(), error.error_code, error.message
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise
    except Exception:  # of a parser: MLflow converts most of them
        if model.is_called:
            raise
        status, code, message = HTTPStatus.BAD_REQUEST, "BAD_REQUEST", f"The body is not valid {media_type}."
    if not isinstance(model.error, exception | NoneType):  # the message does not contain the error
        logger.warning("model failed on a scoring request", exc_info=model.error)
    return status, "application/json", json.dumps({"error_code": code, "message": message})

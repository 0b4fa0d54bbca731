"""Errors that models raise; each answers with its own message and status."""

from inferstream.errors import InvalidModelURI, ModelError, ModelNotFound, ModelNotReady

MLServerError = ModelError


class InferenceError(MLServerError):
    """The request cannot be answered."""

    def __init__(self, msg: str) -> None:
        super().__init__(msg, 400)


class ModelParametersMissing(MLServerError):
    """A runtime needs `parameters` that the settings do not have."""

    def __init__(self, model_name: str) -> None:
        super().__init__(f"Parameters missing for model {model_name}", 400)


__all__ = [
    "InferenceError",
    "InvalidModelURI",
    "MLServerError",
    "ModelNotFound",
    "ModelNotReady",
    "ModelParametersMissing",
]

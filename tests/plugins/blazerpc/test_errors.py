"""Errors under BlazeRPC's names."""

from inferstream.errors import ModelError
from inferstream.ext.hosting import install_aliases

install_aliases()

import blazerpc  # type: ignore[import-not-found]
from blazerpc import (
    BlazeRPCError,
    ConfigurationError,
    InferenceError,
    ModelNotFoundError,
    SerializationError,
    ValidationError,
)
from grpclib import GRPCError, Status  # type: ignore[import-not-found]


def test_errors() -> None:
    for error, status in (
        (BlazeRPCError("x"), 500),
        (ValidationError("x", field="f"), 400),
        (SerializationError("x", dtype="d"), 400),
        (InferenceError("x", model_name="m"), 500),
        (ConfigurationError("x"), 500),
        (ModelNotFoundError("m", "2"), 404),
    ):
        assert isinstance(error, BlazeRPCError)
        assert isinstance(error, ModelError)
        assert error.status_code == status
    assert str(ModelNotFoundError("m", "2")) == "Model 'm' version '2' not found"
    assert (ValidationError("x", field="f").field, SerializationError("x", dtype="d").dtype) == ("f", "d")
    assert GRPCError(Status.NOT_FOUND).status_code == 404
    assert blazerpc.__version__ == "2.2.1"

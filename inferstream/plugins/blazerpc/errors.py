"""Errors with BlazeRPC names. Each class has a status."""

from typing import ClassVar

from inferstream.errors import ModelError

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
"""JSON-RPC 2.0 error codes."""


class BlazeRPCError(ModelError):
    """Base class of the errors. Clients receive the message and the status of the class."""

    status_of_class: ClassVar[int] = 500

    def __init__(self, message: str = "") -> None:
        super().__init__(message, self.status_of_class)


class ValidationError(BlazeRPCError):
    """An argument is invalid (400, INVALID_ARGUMENT)."""

    status_of_class = 400

    def __init__(self, message: str, *, field: str | None = None) -> None:
        self.field = field
        super().__init__(message)


class ModelNotFoundError(BlazeRPCError):
    """The model does not exist (404, NOT_FOUND)."""

    status_of_class = 404

    def __init__(self, name: str, version: str = "1") -> None:
        self.name = name
        self.version = version
        super().__init__(f"Model '{name}' version '{version}' not found")


class SerializationError(BlazeRPCError):
    """A tensor cannot be encoded or decoded (400, INVALID_ARGUMENT)."""

    status_of_class = 400

    def __init__(self, message: str, *, dtype: str | None = None) -> None:
        self.dtype = dtype
        super().__init__(message)


class InferenceError(BlazeRPCError):
    """The function failed (500, INTERNAL)."""

    def __init__(self, message: str, *, model_name: str | None = None) -> None:
        self.model_name = model_name
        super().__init__(message)


class ConfigurationError(BlazeRPCError):
    """The configuration is invalid (500, INTERNAL)."""

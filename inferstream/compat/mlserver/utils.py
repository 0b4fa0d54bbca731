"""Odds and ends that runtimes use."""

import uuid
from collections.abc import Callable
from inspect import unwrap
from typing import Any

from inferstream.settings.uri import get_model_uri, to_absolute_path
from inferstream.types import InferenceRequest, InferenceResponse, Parameters

__all__ = [
    "extract_headers",
    "generate_uuid",
    "get_model_uri",
    "get_wrapped_method",
    "insert_headers",
    "to_absolute_path",
]


def generate_uuid() -> str:
    """A random id."""
    return str(uuid.uuid4())


def get_wrapped_method(f: Callable[..., Any]) -> Callable[..., Any]:
    """The function that decorators stand around."""
    method: Callable[..., Any] = unwrap(f)
    return method


def insert_headers(inference_request: InferenceRequest, headers: dict[str, str]) -> InferenceRequest:
    """Put transport headers into a request's parameters."""
    if inference_request.parameters is None:
        inference_request.parameters = Parameters()
    inference_request.parameters.headers = headers
    return inference_request


def extract_headers(inference_response: InferenceResponse) -> dict[str, Any] | None:
    """Take transport headers out of a response's parameters."""
    parameters = inference_response.parameters
    if parameters is None or not parameters.headers:
        return None
    headers, parameters.headers = dict(parameters.headers), None
    return headers

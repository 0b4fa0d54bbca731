"""Decoded payloads of tensors and requests, cached in their parameters so that each is decoded once."""

from typing import Any

from ..types import InferenceRequest, InferenceResponse, Parameters, RequestInput, ResponseOutput
from ..types.parameters import assign

DecodedParameterName = "_decoded_payload"
"""The attribute of `Parameters` that holds the decoded payload. Model code written for MLServer reads it."""

Part = RequestInput | ResponseOutput | InferenceRequest | InferenceResponse


def has_decoded(parametrised_obj: Part) -> bool:
    """Whether a decoded payload is cached with this tensor or request."""
    parameters = parametrised_obj.parameters
    if parameters is None or not parameters.has_decoded:
        return False
    # Two tensors can share a Parameters object, and a model can assign new data to a tensor.
    source = getattr(parameters, "_decoded_from", None)
    return source is None or source is _source(parametrised_obj)


def get_decoded(parametrised_obj: Part) -> Any:
    """Return the cached payload, or None."""
    if not has_decoded(parametrised_obj):
        return None
    return getattr(parametrised_obj.parameters, DecodedParameterName)


def get_decoded_or_raw(parametrised_obj: Part) -> Any:
    """Return the cached payload.

    If none is cached, returns the data of the tensor, or the request or response itself.
    """
    if has_decoded(parametrised_obj):
        return get_decoded(parametrised_obj)
    if isinstance(parametrised_obj, (InferenceRequest, InferenceResponse)):
        return parametrised_obj
    return parametrised_obj.data


def cache_payload(part: Part, payload: Any) -> Any:
    """Cache a decoded payload and return it. Dumps omit it."""
    parameters = part.parameters
    if parameters is None:
        parameters = part.parameters = Parameters.aside()
    elif parameters.has_decoded and not has_decoded(part):
        parameters = part.parameters = parameters.model_copy()
    assign(parameters, DecodedParameterName, payload)
    assign(parameters, "_decoded_from", _source(part))
    return payload


def _source(part: Part) -> Any:
    """Return the object that was decoded, compared by identity."""
    if isinstance(part, InferenceRequest):
        return part.inputs
    return part.outputs if isinstance(part, InferenceResponse) else part.data

"""Decoded forms of tensors and requests, stored with them so that each is decoded once."""

from typing import Any

from ..types import InferenceRequest, InferenceResponse, Parameters, RequestInput, ResponseOutput
from ..types.parameters import assign

DecodedParameterName = "_decoded_payload"
"""The attribute of `Parameters` that holds the decoded form. Model code written for MLServer reads it."""

Part = RequestInput | ResponseOutput | InferenceRequest | InferenceResponse


def has_decoded(parametrised_obj: Part) -> bool:
    """Whether a decoded form is stored with this tensor or request."""
    parameters = parametrised_obj.parameters
    if parameters is None or not parameters.has_decoded:
        return False
    # Two tensors may share one Parameters object, and a model may give a tensor new data.
    source = getattr(parameters, "_decoded_from", None)
    return source is None or source is _source(parametrised_obj)


def get_decoded(parametrised_obj: Part) -> Any:
    """The stored decoded form, or None."""
    if not has_decoded(parametrised_obj):
        return None
    return getattr(parametrised_obj.parameters, DecodedParameterName)


def get_decoded_or_raw(parametrised_obj: Part) -> Any:
    """The stored decoded form, else the tensor's data, or the request or response itself."""
    if has_decoded(parametrised_obj):
        return get_decoded(parametrised_obj)
    if isinstance(parametrised_obj, (InferenceRequest, InferenceResponse)):
        return parametrised_obj
    return parametrised_obj.data


def keep(part: Part, payload: Any) -> Any:
    """Store a decoded form and return it. Dumps omit it."""
    parameters = part.parameters
    if parameters is None:
        parameters = part.parameters = Parameters.aside()
    elif parameters.has_decoded and not has_decoded(part):
        parameters = part.parameters = parameters.model_copy()
    assign(parameters, DecodedParameterName, payload)
    assign(parameters, "_decoded_from", _source(part))
    return payload


def _source(part: Part) -> Any:
    """The source of the decoded form, compared by identity."""
    if isinstance(part, InferenceRequest):
        return part.inputs
    return part.outputs if isinstance(part, InferenceResponse) else part.data

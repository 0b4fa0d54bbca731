"""Decoded forms kept beside the tensor or request they were made of, so that each is decoded once."""

from typing import Any

from ..types import InferenceRequest, InferenceResponse, Parameters, RequestInput, ResponseOutput

DecodedParameterName = "_decoded_payload"
"""The attribute of `Parameters` that holds the decoded form; model code written for MLServer looks there."""

Part = RequestInput | ResponseOutput | InferenceRequest | InferenceResponse


def has_decoded(parametrised_obj: Part) -> bool:
    """Whether a decoded form of this tensor or request is kept with it."""
    parameters = parametrised_obj.parameters
    if parameters is None or not parameters.has_decoded:
        return False
    # Two tensors may share one Parameters object, and a model may give a tensor new data.
    source = parameters.decoded_from
    return source is None or source is _source(parametrised_obj)


def get_decoded(parametrised_obj: Part) -> Any:
    """The decoded form that is kept, or None."""
    parameters = parametrised_obj.parameters
    return parameters.decoded if parameters is not None and has_decoded(parametrised_obj) else None


def get_decoded_or_raw(parametrised_obj: Part) -> Any:
    """The decoded form that is kept, else the tensor's data, or the request or response itself."""
    if has_decoded(parametrised_obj):
        return get_decoded(parametrised_obj)
    if isinstance(parametrised_obj, (InferenceRequest, InferenceResponse)):
        return parametrised_obj
    return parametrised_obj.data


def keep(part: Part, payload: Any) -> Any:
    """Keep a decoded form, which never shows in a dump, and return it."""
    parameters = part.parameters
    if parameters is None:
        # Past pydantic's own setter: what we add is not among what the client sent, so no dump may show it.
        parameters = part.__dict__["parameters"] = Parameters.trusted({})
        part.model_fields_set.discard("parameters")
    elif parameters.has_decoded and not has_decoded(part):
        parameters = part.__dict__["parameters"] = parameters.model_copy()
    parameters.keep_decoded(payload, _source(part))
    return payload


def _source(part: Part) -> Any:
    """What the decoded form was made of, by identity."""
    if isinstance(part, InferenceRequest):
        return part.inputs
    return part.outputs if isinstance(part, InferenceResponse) else part.data

"""Many requests as one, and its response as theirs."""

from typing import Any

from inferstream.dataplane.stages.merging import merge, split
from inferstream.types import InferenceRequest, InferenceResponse, RequestInput, RequestOutput

from ..utils import generate_uuid


class BatchedRequests:
    """Requests by an id of the caller's choice; all need the same inputs, with one row or more."""

    def __init__(self, inference_requests: dict[str, InferenceRequest]) -> None:
        self.inference_requests = inference_requests
        self.merged_request = merge(list(inference_requests.values()), generate_uuid())

    def split_response(self, batched_response: InferenceResponse) -> dict[str, InferenceResponse]:
        """The response to each request. Raises InvalidOutput where it has not one row for each of theirs."""
        responses = split(batched_response, list(self.inference_requests.values()))
        return dict(zip(self.inference_requests, responses, strict=True))


def _merge_parameters(
    all_params: dict[str, Any],
    parametrised_obj: InferenceRequest | InferenceResponse | RequestInput | RequestOutput,
) -> dict[str, Any]:
    """Parameters of one more object over those of the objects before."""
    parameters = parametrised_obj.parameters
    return all_params if parameters is None else {**all_params, **parameters.model_dump()}


__all__ = ["BatchedRequests"]

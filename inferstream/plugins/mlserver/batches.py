"""Merges and splits requests, for programs that use the MLServer batching classes."""

from collections.abc import Sequence
from itertools import repeat
from math import prod
from typing import Any

from inferstream.errors import InvalidOutput
from inferstream.types import (
    InferenceRequest,
    InferenceResponse,
    Parameters,
    RequestInput,
    RequestOutput,
    ResponseOutput,
    TensorData,
)

from .model import generate_uuid


class BatchedRequests:
    """Merges requests, given by id. All must have the same inputs, with at least one row."""

    def __init__(self, inference_requests: dict[str, InferenceRequest]) -> None:
        self.inference_requests = inference_requests
        first, *_ = requests = [*inference_requests.values()]
        columns = [[_input(request, tensor.name) for request in requests] for tensor in first.inputs]
        self.merged_request = InferenceRequest.of(
            [_join(tensors) for tensors in columns],
            generate_uuid(),
            _copy_parameters(first.parameters),
            first.outputs,
        )

    def split_response(self, batched_response: InferenceResponse) -> dict[str, InferenceResponse]:
        """Split a response by request.

        Raises InvalidOutput unless it has one row for each row of the requests.
        """
        requests = self.inference_requests
        rows = [request.inputs[0].shape[0] for request in requests.values()]
        columns = [_split(output, rows) for output in batched_response.outputs]
        outputs = map(list, zip(*columns, strict=True)) if columns else repeat([])
        name, version, parameters = (
            batched_response.model_name,
            batched_response.model_version,
            batched_response.parameters,
        )
        return {
            id: InferenceResponse.of(name, own, version, request.id, parameters)
            for (id, request), own in zip(requests.items(), outputs, strict=False)
        }


def _input(request: InferenceRequest, name: str) -> RequestInput:
    return next(tensor for tensor in request.inputs if tensor.name == name)


def _copy_parameters(parameters: Parameters | None) -> Parameters | None:
    """Copy parameters without the headers and the decoded payload of a request."""
    return None if parameters is None else Parameters(**dict(parameters.items()))


def _join(tensors: Sequence[RequestInput]) -> RequestInput:
    first = tensors[0]
    shape = [sum(tensor.shape[0] for tensor in tensors), *first.shape[1:]]
    data = TensorData.join([tensor.data for tensor in tensors], first.datatype)
    return RequestInput.of(first.name, shape, first.datatype, data, _copy_parameters(first.parameters))


def _split(output: ResponseOutput, rows: Sequence[int]) -> list[ResponseOutput]:
    """Split an output by request. Raises InvalidOutput."""
    shape, datatype = output.shape, output.datatype
    if not shape or shape[0] != sum(rows) or not output.data.is_sound(datatype, shape):
        raise InvalidOutput(
            f'output "{output.name}" has shape {shape} and {len(output.data)} values of {datatype}, '
            f"which is not one row for each of {sum(rows)} rows"
        )
    width = prod(shape[1:])
    parts = output.data.split(datatype, [count * width for count in rows])
    return [
        ResponseOutput.of(output.name, [count, *shape[1:]], datatype, part, output.parameters)
        for count, part in zip(rows, parts, strict=True)
    ]


def _merge_parameters(
    all_params: dict[str, Any],
    parametrised_obj: InferenceRequest | InferenceResponse | RequestInput | RequestOutput,
) -> dict[str, Any]:
    parameters = parametrised_obj.parameters
    return all_params if parameters is None else {**all_params, **parameters.model_dump()}

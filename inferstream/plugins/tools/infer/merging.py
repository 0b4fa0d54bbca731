"""Merges several requests into one along the first dimension, and splits the response."""

import uuid
from collections.abc import Hashable, Sequence
from math import prod

import orjson

from inferstream.errors import CallFailed
from inferstream.types import InferenceRequest, InferenceResponse, Parameters, ResponseOutput, TensorData


def group_requests(requests: Sequence[InferenceRequest]) -> list[list[int]]:
    """Group the positions of requests that can be merged, ordered by the first position of each group."""
    by_key: dict[Hashable, list[int]] = {}
    for position, request in enumerate(requests):
        key = _merge_key(request)
        by_key.setdefault(position if key is None else key, []).append(position)
    return [*by_key.values()]


def _merge_key(request: InferenceRequest) -> Hashable | None:
    """Return a key that is equal for requests that can be merged.

    Returns None if the request cannot be merged.
    """
    rows = {tensor.shape[0] if tensor.shape else 0 for tensor in request.inputs}
    if len(rows) != 1 or 0 in rows:
        return None
    inputs = tuple(
        (tensor.name, tensor.datatype, tuple(tensor.shape[1:]), _dump_parameters(tensor.parameters))
        for tensor in request.inputs
    )
    outputs = tuple((output.name, _dump_parameters(output.parameters)) for output in request.outputs or ())
    return inputs, outputs, _dump_parameters(request.parameters)


def _dump_parameters(parameters: Parameters | None) -> bytes:
    return orjson.dumps(dict(parameters.items()) if parameters else {}, option=orjson.OPT_SORT_KEYS)


def merge_requests(requests: Sequence[InferenceRequest]) -> InferenceRequest:
    """Merge the rows of all `requests`, which must be from one group."""
    first = requests[0]
    inputs = []
    for position, tensor in enumerate(first.inputs):
        parts = [request.inputs[position] for request in requests]
        shape = [sum(part.shape[0] for part in parts), *tensor.shape[1:]]
        data = TensorData.join([part.data for part in parts], tensor.datatype)
        inputs.append(tensor.model_copy(update={"shape": shape, "data": data}))
    return first.model_copy(update={"id": str(uuid.uuid4()), "inputs": inputs})


def split_response(
    response: InferenceResponse, requests: Sequence[InferenceRequest]
) -> list[InferenceResponse]:
    """Split a response into the responses to `requests`, with their ids.

    Raises CallFailed if an output does not have one row for each row of the requests.
    """
    sizes = [request.inputs[0].shape[0] for request in requests]
    outputs = [_split_rows(output, sizes) for output in response.outputs]
    return [
        response.model_copy(update={"id": request.id, "outputs": [parts[position] for parts in outputs]})
        for position, request in enumerate(requests)
    ]


def _split_rows(output: ResponseOutput, sizes: Sequence[int]) -> list[ResponseOutput]:
    if not output.shape or output.shape[0] != sum(sizes):
        raise CallFailed(f'output "{output.name}" has shape {output.shape} for {sum(sizes)} rows')
    row = output.shape[1:]
    parts = output.data.split(output.datatype, [size * prod(row) for size in sizes])
    return [
        output.model_copy(update={"shape": [size, *row], "data": data})
        for size, data in zip(sizes, parts, strict=True)
    ]

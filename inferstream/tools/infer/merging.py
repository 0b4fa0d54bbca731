"""Merges several requests into one along the first dimension, and splits its response."""

import uuid
from collections.abc import Hashable, Sequence
from math import prod

import orjson

from ...errors import CallFailed
from ...types import InferenceRequest, InferenceResponse, Parameters, ResponseOutput, TensorData


def groups(requests: Sequence[InferenceRequest]) -> list[list[int]]:
    """The positions in `requests` of those that can be merged, in the order of the first of each group."""
    by_key: dict[Hashable, list[int]] = {}
    for position, request in enumerate(requests):
        key = _merge_key(request)
        by_key.setdefault(position if key is None else key, []).append(position)
    return [*by_key.values()]


def _merge_key(request: InferenceRequest) -> Hashable | None:
    """Equal for requests that can be merged; None for a request that cannot be merged."""
    rows = {tensor.shape[0] if tensor.shape else 0 for tensor in request.inputs}
    if len(rows) != 1 or 0 in rows:
        return None
    inputs = tuple(
        (tensor.name, tensor.datatype, tuple(tensor.shape[1:]), _dumped(tensor.parameters))
        for tensor in request.inputs
    )
    outputs = tuple((output.name, _dumped(output.parameters)) for output in request.outputs or ())
    return inputs, outputs, _dumped(request.parameters)


def _dumped(parameters: Parameters | None) -> bytes:
    return orjson.dumps(dict(parameters.items()) if parameters else {}, option=orjson.OPT_SORT_KEYS)


def merged(requests: Sequence[InferenceRequest]) -> InferenceRequest:
    """One request with the rows of all `requests`, which are of one group."""
    first = requests[0]
    inputs = []
    for position, tensor in enumerate(first.inputs):
        parts = [request.inputs[position] for request in requests]
        shape = [sum(part.shape[0] for part in parts), *tensor.shape[1:]]
        data = TensorData.join([part.data for part in parts], tensor.datatype)
        inputs.append(tensor.model_copy(update={"shape": shape, "data": data}))
    return first.model_copy(update={"id": str(uuid.uuid4()), "inputs": inputs})


def split(response: InferenceResponse, requests: Sequence[InferenceRequest]) -> list[InferenceResponse]:
    """The response to each of `requests`, with the id of the request.

    Raises CallFailed when an output does not have one row for each row of the requests.
    """
    sizes = [request.inputs[0].shape[0] for request in requests]
    outputs = [_rows(output, sizes) for output in response.outputs]
    return [
        response.model_copy(update={"id": request.id, "outputs": [parts[position] for parts in outputs]})
        for position, request in enumerate(requests)
    ]


def _rows(output: ResponseOutput, sizes: Sequence[int]) -> list[ResponseOutput]:
    if not output.shape or output.shape[0] != sum(sizes):
        raise CallFailed(f'output "{output.name}" has shape {output.shape} for {sum(sizes)} rows')
    row = output.shape[1:]
    parts = output.data.split(output.datatype, [size * prod(row) for size in sizes])
    return [
        output.model_copy(update={"shape": [size, *row], "data": data})
        for size, data in zip(sizes, parts, strict=True)
    ]

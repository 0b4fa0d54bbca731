"""Several requests as one along the first dimension, and the one answer as several again."""

import uuid
from collections.abc import Hashable, Iterator, Sequence

import numpy as np
import orjson

from ..errors import CallFailed
from ..types import InferenceRequest, InferenceResponse, Parameters, RequestInput, ResponseOutput, TensorData


def groups(requests: Sequence[InferenceRequest]) -> list[list[int]]:
    """Positions in `requests` of those that may travel together; in the order of their first."""
    found: dict[Hashable, list[int]] = {}
    for position, request in enumerate(requests):
        key = _likeness(request)
        found.setdefault(position if key is None else key, []).append(position)
    return [*found.values()]


def _likeness(request: InferenceRequest) -> Hashable | None:
    """Equal for requests that may be merged; None for one that cannot be."""
    rows = {tensor.shape[0] if tensor.shape else 0 for tensor in request.inputs}
    if len(rows) != 1 or 0 in rows:
        return None
    inputs = tuple(
        (tensor.name, tensor.datatype, tuple(tensor.shape[1:]), _written(tensor.parameters))
        for tensor in request.inputs
    )
    outputs = tuple((output.name, _written(output.parameters)) for output in request.outputs or ())
    return inputs, outputs, _written(request.parameters)


def _written(parameters: Parameters | None) -> bytes:
    return orjson.dumps(dict(parameters.items()) if parameters else {}, option=orjson.OPT_SORT_KEYS)


def merged(requests: Sequence[InferenceRequest]) -> InferenceRequest:
    """One request for the rows of all, which are alike."""
    first = requests[0]
    inputs = []
    for position, tensor in enumerate(first.inputs):
        parts = [request.inputs[position] for request in requests]
        shape = [sum(part.shape[0] for part in parts), *tensor.shape[1:]]
        inputs.append(tensor.model_copy(update={"shape": shape, "data": _joined(parts)}))
    return first.model_copy(update={"id": str(uuid.uuid4()), "inputs": inputs})


def _joined(parts: Sequence[RequestInput]) -> TensorData:
    datatype = parts[0].datatype
    if datatype == "BYTES":
        return TensorData([value for part in parts for value in part.data.flat()])
    return TensorData(np.concatenate([part.data.to_numpy(datatype).reshape(-1) for part in parts]))


def split(response: InferenceResponse, requests: Sequence[InferenceRequest]) -> list[InferenceResponse]:
    """The answer to each of `requests`, under its own id.

    Raises CallFailed when an output does not have one row for each row that was sent.
    """
    sizes = [request.inputs[0].shape[0] for request in requests]
    outputs = [list(_rows(output, sizes)) for output in response.outputs]
    return [
        response.model_copy(update={"id": request.id, "outputs": [parts[position] for parts in outputs]})
        for position, request in enumerate(requests)
    ]


def _rows(output: ResponseOutput, sizes: Sequence[int]) -> Iterator[ResponseOutput]:
    if not output.shape or output.shape[0] != sum(sizes):
        raise CallFailed(f'output "{output.name}" has shape {output.shape} for {sum(sizes)} rows')
    values = _flat(output)
    per_row = len(values) // sum(sizes)
    start = 0
    for size in sizes:
        end = start + size * per_row
        shape = [size, *output.shape[1:]]
        yield output.model_copy(update={"shape": shape, "data": TensorData(values[start:end])})
        start = end


def _flat(output: ResponseOutput) -> "list[object] | np.ndarray":
    if output.datatype == "BYTES":
        return output.data.flat()
    return output.data.to_numpy(output.datatype).reshape(-1)

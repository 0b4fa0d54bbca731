"""Compares and merges requests, and splits responses, for batching and the response cache."""

from collections.abc import Hashable, Mapping, Sequence
from itertools import accumulate, pairwise
from math import prod
from typing import Any

import msgspec

from ...errors import InvalidOutput, ModelError
from ...rows import RowErrors
from ...types import (
    Headers,
    InferenceRequest,
    InferenceResponse,
    Parameters,
    RequestInput,
    ResponseOutput,
    TensorData,
)
from ..call import PACE, PRIORITY, TIMEOUT
from ..checks import Checks

canonical = msgspec.msgpack.Encoder(order="deterministic").encode
"""Encodes values to compare them. Distinguishes 1, 1.0 and true, which are equal in Python."""

UNENCODABLE = (TypeError, ValueError, OverflowError, msgspec.MsgspecError)
"""Errors of `canonical` for values that cannot be compared, because they exist only in this process."""

EACH_ITS_OWN = frozenset((PACE, PRIORITY, TIMEOUT))
"""Parameters that the dataplane has already applied. Callers that share a response may differ in them."""


def parameters_key(parameters: Parameters | None, without: frozenset[str] = frozenset()) -> Hashable:
    """Convert parameters, except those in `without`, to a key. Equal keys mean equal parameters.

    Raises one of `UNENCODABLE`.
    """
    if parameters is None:
        return None
    free = parameters.__pydantic_extra__
    if free and not without.isdisjoint(free):
        free = {name: value for name, value in free.items() if name not in without}
    return (parameters.content_type, canonical(free)) if free else parameters.content_type


def copy_parameters(
    parameters: Parameters | None,
    headers: Mapping[str, str] | None = None,
    without: frozenset[str] = frozenset(),
) -> Parameters:
    """Copy parameters, except those in `without`, and replace their headers.

    Values that codecs have attached to the original are not copied.
    """
    if parameters is None:
        return Parameters.aside(headers)
    free = parameters.__pydantic_extra__ or {}
    rest = {name: value for name, value in free.items() if name not in without}
    return Parameters.of(rest, parameters.content_type, headers)


BatchKey = Hashable


def batch_key(request: InferenceRequest, checks: Checks) -> BatchKey | None:
    """Compute the batch key of a request. Returns None if the request cannot be batched.

    Requests with equal keys can share a batch. The key contains the names, datatypes, parameters and shapes
    of the inputs, except for the number of rows. It also contains the request's parameters and the requested
    outputs, but not its id and headers.
    """
    inputs = request.inputs
    if not inputs or not inputs[0].shape:
        return None
    rows = inputs[0].shape[0]
    tensors: list[tuple[Any, ...]] = []
    try:
        for tensor in inputs:
            shape = tensor.shape
            if rows < 1 or not checks.counts_rows(tensor) or shape[0] != rows:
                return None
            tensors.append((tensor.name, tensor.datatype, *shape[1:], parameters_key(tensor.parameters)))
        if len(tensors) > 1:
            tensors.sort(key=lambda tensor: tensor[0])
        outputs = request.outputs
        wanted = (
            tuple((output.name, parameters_key(output.parameters)) for output in outputs) if outputs else ()
        )
        return (*tensors, parameters_key(request.parameters, EACH_ITS_OWN), wanted)
    except UNENCODABLE:
        return None


def count_rows(request: InferenceRequest) -> int:
    return request.inputs[0].shape[0]


def merge(requests: Sequence[InferenceRequest], id: str) -> InferenceRequest:
    """Merge requests with equal batch keys, in order.

    Drops the headers and the parameters in `EACH_ITS_OWN`.
    """
    first = requests[0]
    names = [tensor.name for tensor in first.inputs]
    columns = zip(*[_sort_inputs(request, names) for request in requests], strict=True)
    parameters = copy_parameters(first.parameters, Headers(()), EACH_ITS_OWN)
    return InferenceRequest.of([_join(tensors) for tensors in columns], id, parameters, first.outputs)


def _sort_inputs(request: InferenceRequest, names: list[str]) -> list[RequestInput]:
    inputs = request.inputs
    if len(inputs) == 1:
        return inputs
    named = {tensor.name: tensor for tensor in inputs}
    return [named[name] for name in names]


def _join(tensors: Sequence[RequestInput]) -> RequestInput:
    first = tensors[0]
    shape = [sum([tensor.shape[0] for tensor in tensors]), *first.shape[1:]]
    data = TensorData.join([tensor.data for tensor in tensors], first.datatype)
    parameters = None if first.parameters is None else copy_parameters(first.parameters)
    return RequestInput.of(first.name, shape, first.datatype, data, parameters)


def split_outcome(
    outcome: InferenceResponse | RowErrors, requests: Sequence[InferenceRequest]
) -> Sequence[InferenceResponse | ModelError]:
    """Split the outcome of a batch into one response per request, or an error if one of its rows failed.

    Raises InvalidOutput if the numbers of rows do not match.
    """
    if not isinstance(outcome, RowErrors):
        return split(outcome, requests)
    ends = list(accumulate(map(count_rows, requests)))
    if max(outcome.errors) >= ends[-1]:
        raise InvalidOutput(f"A model failed row {max(outcome.errors)} of a batch of {ends[-1]} rows.")
    failed = [outcome.within(start, stop) for start, stop in pairwise([0, *ends])]
    if outcome.response is None:
        if None in failed:
            raise InvalidOutput("A model failed some rows of a batch and answered none of the others.")
        return [error for error in failed if error is not None]
    responses = split(outcome.response, requests)
    return [error or response for error, response in zip(failed, responses, strict=True)]


def split(response: InferenceResponse, requests: Sequence[InferenceRequest]) -> list[InferenceResponse]:
    """Split the response of a batch. Raises InvalidOutput unless each output has one row per input row."""
    rows = [count_rows(request) for request in requests]
    columns = [_cut(output, rows, response.model_name) for output in response.outputs]
    # Parameters are shared, because outer stages do not modify responses.
    name, version, parameters = response.model_name, response.model_version, response.parameters
    return [
        InferenceResponse.of(name, [column[index] for column in columns], version, request.id, parameters)
        for index, request in enumerate(requests)
    ]


def _cut(output: ResponseOutput, rows: list[int], model: str) -> list[ResponseOutput]:
    shape, datatype = output.shape, output.datatype
    total = sum(rows)
    if not shape or shape[0] != total:
        raise InvalidOutput(
            f'Model {model} answered output "{output.name}" of shape {shape} to a batch of {total} rows; '
            "the first dimension of every output must be the number of rows, or batching must be off."
        )
    if not (output.data.checked or output.data.is_sound(datatype, shape)):
        raise InvalidOutput(
            f'Model {model} answered output "{output.name}" to a batch with values that do not fit its shape '
            f"{shape} and datatype {datatype}, so it cannot be told whose they are; batching must be off."
        )
    row = shape[1:]
    width = prod(row)
    parts = output.data.split(datatype, [count * width for count in rows])
    return [
        ResponseOutput.of(output.name, [count, *row], datatype, part, output.parameters)
        for count, part in zip(rows, parts, strict=True)
    ]

"""Parts that requests share: they are merged into one for a batch, and equal ones get one response of the cache."""

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
"""Distinguishes 1, 1.0 and true, which are equal in Python and may differ for a model."""

UNENCODABLE = (TypeError, ValueError, OverflowError, msgspec.MsgspecError)
"""Raised by `canonical` for values that exist only in this process and cannot be compared."""

EACH_ITS_OWN = frozenset((PACE, PRIORITY, TIMEOUT))
"""Parameters that the dataplane has applied; they may differ between callers that share a response."""


def common(parameters: Parameters | None, without: frozenset[str] = frozenset()) -> Hashable:
    """A form of the parameters that is equal only if they are. Raises one of `UNENCODABLE`."""
    if parameters is None:
        return None
    free = parameters.__pydantic_extra__
    if free and not without.isdisjoint(free):
        free = {name: value for name, value in free.items() if name not in without}
    return (parameters.content_type, canonical(free)) if free else parameters.content_type


def copied(
    parameters: Parameters | None,
    headers: Mapping[str, str] | None = None,
    without: frozenset[str] = frozenset(),
) -> Parameters:
    """A copy with these headers, and without entries of codecs, which belong to one tensor or request."""
    if parameters is None:
        return Parameters.aside(headers)
    free = parameters.__pydantic_extra__ or {}
    rest = {name: value for name, value in free.items() if name not in without}
    return Parameters.of(rest, parameters.content_type, headers)


BatchKey = Hashable


def key_of(request: InferenceRequest, checks: Checks) -> BatchKey | None:
    """A key; requests with equal keys may share a batch. None if the request cannot share.

    The key has names, datatypes, parameters and shapes (without the rows) of the inputs, the parameters of the request,
    and the requested outputs. Ids and headers do not count.
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
            tensors.append((tensor.name, tensor.datatype, *shape[1:], common(tensor.parameters)))
        if len(tensors) > 1:
            tensors.sort(key=lambda tensor: tensor[0])
        outputs = request.outputs
        wanted = tuple((output.name, common(output.parameters)) for output in outputs) if outputs else ()
        return (*tensors, common(request.parameters, EACH_ITS_OWN), wanted)
    except UNENCODABLE:
        return None


def rows_of(request: InferenceRequest) -> int:
    return request.inputs[0].shape[0]


def merge(requests: Sequence[InferenceRequest], id: str) -> InferenceRequest:
    """Merge requests with one key, in their order, without headers, priority and time limit of single callers."""
    first = requests[0]
    names = [tensor.name for tensor in first.inputs]
    columns = zip(*[_in_order(request, names) for request in requests], strict=True)
    parameters = copied(first.parameters, Headers(()), EACH_ITS_OWN)
    return InferenceRequest.of([_join(tensors) for tensors in columns], id, parameters, first.outputs)


def _in_order(request: InferenceRequest, names: list[str]) -> list[RequestInput]:
    inputs = request.inputs
    if len(inputs) == 1:
        return inputs
    named = {tensor.name: tensor for tensor in inputs}
    return [named[name] for name in names]


def _join(tensors: Sequence[RequestInput]) -> RequestInput:
    first = tensors[0]
    shape = [sum([tensor.shape[0] for tensor in tensors]), *first.shape[1:]]
    data = TensorData.join([tensor.data for tensor in tensors], first.datatype)
    parameters = None if first.parameters is None else copied(first.parameters)
    return RequestInput.of(first.name, shape, first.datatype, data, parameters)


def deal(
    outcome: InferenceResponse | RowErrors, requests: Sequence[InferenceRequest]
) -> Sequence[InferenceResponse | ModelError]:
    """The response to each request, or an error where a row failed. Raises InvalidOutput if they do not fit."""
    if not isinstance(outcome, RowErrors):
        return split(outcome, requests)
    ends = list(accumulate(map(rows_of, requests)))
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
    """Split a response for several requests. Raises InvalidOutput unless each output has one row per input row."""
    rows = [rows_of(request) for request in requests]
    columns = [_cut(output, rows, response.model_name) for output in response.outputs]
    # Parameters are shared by all: no outer stage changes a response.
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

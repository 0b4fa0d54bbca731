"""Conversion of requests and responses to frames, without loss."""

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ...processes.shared_memory import Outgoing
from ...types import (
    Headers,
    InferenceRequest,
    InferenceResponse,
    Parameters,
    RequestInput,
    RequestOutput,
    ResponseOutput,
    TensorData,
    Unread,
)
from ...types.datatypes import DTYPES, widen_bf16
from ...types.tensors import AnyTensor, Tensor
from .frames import PackedRequest, PackedResponse, PackedTensor

VALUES, RAW, ARRAY = range(3)
"""Forms of tensor data: Python values, raw bytes, or the bytes of an array that the reader may modify."""

UNCHECKED = 4
"""Flag for unchecked data, whose Python values are sent unchanged."""

BINARY = 8
"""Flag for BYTES that JSON represents as base64."""

FORM = 3
"""Mask of the form itself."""

FEW = 512
"""Lists of up to this many numbers are sent unchanged, which is as fast as an array and keeps them nested."""

INLINE = 8192
"""Maximum tensor size within a frame, in bytes. Larger ones are faster through shared memory."""

Put = Callable[[memoryview | bytes | Unread], int | None]
View = Callable[[int, int], memoryview]


def pack_request(request: InferenceRequest, arena: Outgoing) -> PackedRequest:
    """Pack a request, with large tensors in shared memory. Raises errors of lazily loaded tensors."""
    outputs = request.outputs
    inputs: list[PackedTensor] = []
    try:
        for tensor in request.inputs:
            inputs.append(_pack_tensor(tensor, arena.put))  # Earlier ones are freed below if this fails.
    except BaseException:
        arena.free(places_in(inputs))
        raise
    return PackedRequest(
        request.id,
        _pack_parameters(request.parameters),
        inputs,
        None
        if outputs is None
        else [(output.name, _pack_parameters(output.parameters)) for output in outputs],
    )


def unpack_request(frame: PackedRequest, view: View) -> InferenceRequest:
    """Unpack a request. Its tensors refer to shared memory."""
    wanted = None
    if frame.outputs is not None:
        wanted = [RequestOutput.of(name, _unpack_parameters(packed)) for name, packed in frame.outputs]
    inputs = [_unpack_tensor(RequestInput, tensor, view) for tensor in frame.inputs]
    return InferenceRequest.of(inputs, frame.id, _unpack_parameters(frame.parameters), wanted)


def pack_response(response: InferenceResponse, put: Put) -> PackedResponse:
    """Pack a validated response, with large tensors in shared memory."""
    return PackedResponse(
        response.model_name,
        response.model_version,
        response.id,
        _pack_parameters(response.parameters),
        [_pack_tensor(tensor, put) for tensor in response.outputs],
    )


def unpack_response(frame: PackedResponse, view: View) -> InferenceResponse:
    """Unpack a response. Its tensors refer to shared memory."""
    outputs = [_unpack_tensor(ResponseOutput, tensor, view) for tensor in frame.outputs]
    parameters = _unpack_parameters(frame.parameters)
    return InferenceResponse.of(frame.model_name, outputs, frame.model_version, frame.id, parameters)


def places_in(tensors: list[PackedTensor]) -> list[int]:
    """Return the places in shared memory that the tensors of an unsent frame occupy."""
    placed = (tensor.data for tensor in tensors if tensor.form & FORM != VALUES)
    return [data[0] for data in placed if isinstance(data, tuple)]


def _pack_tensor(tensor: Tensor, put: Put) -> PackedTensor:
    form, data = _pack_data(tensor.data, tensor.datatype, tensor.shape, put)
    return PackedTensor(
        tensor.name, tensor.shape, tensor.datatype, form, data, _pack_parameters(tensor.parameters)
    )


def _pack_data(data: TensorData, datatype: str, shape: list[int], put: Put) -> tuple[int, Any]:
    form = VALUES if data.checked else UNCHECKED
    if datatype == "BYTES":
        if data.binary:
            form |= BINARY
        if not data.is_raw:
            return form, data.peek()
    elif (values := data.values) is not None and (form or prod(shape) <= FEW):
        return form, values
    elif form and data.array is not None and data.array.dtype.kind not in "biuf":
        return form, data.peek()
    source = data.source(datatype)
    form |= RAW if data.is_raw else ARRAY
    if len(source) > INLINE and (place := put(source)) is not None:
        return form, (place, len(source))
    return form, source if isinstance(source, (bytes, memoryview)) else data.to_raw(datatype)


def _unpack_tensor(kind: type[AnyTensor], frame: PackedTensor, view: View) -> AnyTensor:
    form, data = frame.form & FORM, frame.data
    if form != VALUES:
        shared = not isinstance(data, bytes)
        raw = view(*data) if shared else data
        if form == RAW:
            data = TensorData.from_raw(raw, frame.datatype)
        elif frame.datatype == "BF16":
            data = TensorData(widen_bf16(raw))
        else:
            data = TensorData(np.frombuffer(raw if shared else bytearray(raw), DTYPES[frame.datatype]))
    else:
        data = TensorData(data)
    data.checked = not frame.form & UNCHECKED
    data.binary = bool(frame.form & BINARY)
    return kind.of(frame.name, frame.shape, frame.datatype, data, _unpack_parameters(frame.parameters))


def _pack_parameters(parameters: Parameters | None) -> dict[str, Any] | None:
    if parameters is None:
        return None
    packed = dict(parameters.__pydantic_extra__ or {})
    if parameters.content_type is not None:
        packed["content_type"] = parameters.content_type
    headers = parameters.headers
    if headers is not None:
        packed["headers"] = list(headers.raw) if isinstance(headers, Headers) else dict(headers)
    return packed


def _unpack_parameters(packed: dict[str, Any] | None) -> Parameters | None:
    if packed is None:
        return None
    content_type, headers = packed.pop("content_type", None), packed.pop("headers", None)
    if isinstance(headers, list):
        headers = Headers(headers)
    if content_type is None and not packed:
        return Parameters.aside(headers)
    return Parameters.of(packed, content_type, headers)

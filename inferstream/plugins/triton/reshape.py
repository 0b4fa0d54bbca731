"""The `reshape` option of a configuration: clients use `dims`, and the model uses another shape."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, TypeVar

from inferstream import ModelSettings
from inferstream.errors import InvalidSettings
from inferstream.plugins.frameworks.onnx import OnnxModel
from inferstream.plugins.frameworks.tensors import TensorModel, TensorSpec
from inferstream.plugins.frameworks.torch import TorchModel, TorchProgram
from inferstream.types import InferenceRequest, InferenceResponse, RequestInput, ResponseOutput

AnyTensor = TypeVar("AnyTensor", RequestInput, ResponseOutput)

Change = tuple[Sequence[int], Sequence[int]]
"""Dimensions before and after, without the batch dimension."""


class Reshapes:
    """Reshapes the requests and responses of one model. Raises InvalidSettings for sizes that differ."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._batched = int(config.get("max_batch_size", 0) > 0)
        self.inputs = _changes(config, "input")
        self.outputs = {name: (inner, seen) for name, (seen, inner) in _changes(config, "output").items()}

    def reshape_request(self, request: InferenceRequest) -> InferenceRequest:
        """Return the request with the model's shapes. It is a copy, because the original may be shared."""
        if not self.inputs:
            return request
        inputs = [self._reshape(tensor, self.inputs) for tensor in request.inputs]
        return InferenceRequest.of(inputs, request.id, request.parameters, request.outputs)

    def reshape_response(self, response: InferenceResponse) -> InferenceResponse:
        """Return the response with the shapes that clients expect."""
        if self.outputs:
            response.outputs = [self._reshape(tensor, self.outputs) for tensor in response.outputs]
        return response

    def _reshape(self, tensor: AnyTensor, changes: Mapping[str, Change]) -> AnyTensor:
        if tensor.name not in changes:
            return tensor
        shape = self.change_shape(tensor.shape, changes[tensor.name])
        return type(tensor).of(tensor.name, shape, tensor.datatype, tensor.data, tensor.parameters)

    def change_shape(self, shape: Sequence[int], change: Change) -> list[int]:
        """Apply a change to a shape. Returns the shape unchanged if the change does not match it."""
        before, after = change
        rows, sizes = shape[: self._batched], shape[self._batched :]
        if len(sizes) != len(before):
            return [*shape]
        free = iter([size for size, own in zip(sizes, before, strict=True) if own == -1])
        changed = [*rows, *(next(free) if size == -1 else size for size in after)]
        return changed if prod(changed) == prod(shape) else [*shape]


def _changes(config: Mapping[str, Any], kind: str) -> dict[str, Change]:
    changes: dict[str, Change] = {}
    for tensor in config.get(kind, ()):
        if "reshape" not in tensor:
            continue
        dims, shape = tensor["dims"], tensor["reshape"].get("shape", [])
        if dims.count(-1) != shape.count(-1) or prod(map(abs, dims)) != prod(map(abs, shape)):
            raise InvalidSettings(f'{kind} "{tensor["name"]}": dims {dims} cannot be reshaped to {shape}')
        changes[tensor["name"]] = (dims, shape)
    return changes


class ReshapedModel(TensorModel):
    """A model with named tensors whose configuration uses `reshape`."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__(settings)
        self._reshapes = Reshapes(settings.configuration)

    def predict(self, payload: InferenceRequest) -> InferenceResponse:
        return self._reshapes.reshape_response(super().predict(self._reshapes.reshape_request(payload)))


class ReshapedOnnx(ReshapedModel, OnnxModel):
    """An ONNX model with `reshape`. The file declares the model's shapes."""


class ReshapedTorch(ReshapedModel, TorchModel):
    """A PyTorch model with `reshape`. The configuration declares the model's shapes."""

    def takes(self, artefact: TorchProgram) -> Sequence[TensorSpec]:
        changes = self._reshapes.inputs
        return [
            spec._replace(shape=self._reshapes.change_shape([*map(int, spec.shape)], changes[spec.name]))
            if spec.name in changes
            else spec
            for spec in super().takes(artefact)
        ]

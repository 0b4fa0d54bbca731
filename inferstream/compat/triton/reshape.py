"""`reshape` of a configuration: clients see `dims`, and the model takes or returns another shape."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, TypeVar

from inferstream import ModelSettings

from ...errors import InvalidSettings
from ...runtimes.onnx import OnnxModel
from ...runtimes.tensors import TensorModel, TensorSpec
from ...runtimes.torch import TorchModel, TorchProgram
from ...types import InferenceRequest, InferenceResponse, RequestInput, ResponseOutput

AnyTensor = TypeVar("AnyTensor", RequestInput, ResponseOutput)

Change = tuple[Sequence[int], Sequence[int]]
"""Dimensions before and after, without that of a batch."""


class Reshapes:
    """Changes the shapes of requests and responses of one model. Made at load. Raises InvalidSettings."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._batched = int(config.get("max_batch_size", 0) > 0)
        self.inputs = _changes(config, "input")
        self.outputs = {name: (inner, seen) for name, (seen, inner) in _changes(config, "output").items()}

    def request(self, request: InferenceRequest) -> InferenceRequest:
        """The request as the model takes it: a copy, because others may hold the request itself."""
        if not self.inputs:
            return request
        inputs = [self._changed(tensor, self.inputs) for tensor in request.inputs]
        return InferenceRequest.of(inputs, request.id, request.parameters, request.outputs)

    def response(self, response: InferenceResponse) -> InferenceResponse:
        """The response as clients get it."""
        if self.outputs:
            response.outputs = [self._changed(tensor, self.outputs) for tensor in response.outputs]
        return response

    def _changed(self, tensor: AnyTensor, changes: Mapping[str, Change]) -> AnyTensor:
        if tensor.name not in changes:
            return tensor
        shape = self.shape(tensor.shape, changes[tensor.name])
        return type(tensor).of(tensor.name, shape, tensor.datatype, tensor.data, tensor.parameters)

    def shape(self, shape: Sequence[int], change: Change) -> list[int]:
        """A shape after a change; the same if it is not one that the change is about."""
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
    """A model of named tensors whose configuration has `reshape`."""

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__(settings)
        self._reshapes = Reshapes(settings.configuration)

    def predict(self, payload: InferenceRequest) -> InferenceResponse:
        return self._reshapes.response(super().predict(self._reshapes.request(payload)))


class ReshapedOnnx(ReshapedModel, OnnxModel):
    """The same of ONNX, whose file says which shapes it takes."""


class ReshapedTorch(ReshapedModel, TorchModel):
    """The same of PyTorch, whose shapes the configuration says."""

    def takes(self, artefact: TorchProgram) -> Sequence[TensorSpec]:
        changes = self._reshapes.inputs
        return [
            spec._replace(shape=self._reshapes.shape([*map(int, spec.shape)], changes[spec.name]))
            if spec.name in changes
            else spec
            for spec in super().takes(artefact)
        ]

"""Converters between the protocol's types and gRPC messages, with MLServer's form of tensors.

MLServer's tensors always have `contents`, which are empty if the message has raw contents. Ours have none then,
because Triton and KServe refuse a request that has both.
"""

from typing import Any

from inferstream.ext.rpc import ModelInferResponse
from inferstream.protos import converters
from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.types import InferenceRequest, InferenceResponse, RequestInput, ResponseOutput


class ModelInferRequestConverter(converters.ModelInferRequestConverter):
    @staticmethod
    def to_types(pb_object: ModelInferRequest) -> InferenceRequest:
        """The request, equal to one that is made by hand: an absent id is empty."""
        request = converters.ModelInferRequestConverter.to_types(pb_object)
        fields: dict[str, Any] = {"id": pb_object.id, "inputs": request.inputs, "outputs": request.outputs}
        if pb_object.parameters:
            fields["parameters"] = request.parameters
        return InferenceRequest.model_construct(**fields)

    @staticmethod
    def from_types(
        type_object: InferenceRequest, model_name: str, model_version: str | None = "", use_raw: bool = False
    ) -> ModelInferRequest:
        given = converters.ModelInferRequestConverter.from_types
        message = given(type_object, model_name, model_version, use_raw)
        for tensor in message.inputs:
            tensor.contents.SetInParent()
        return message


class ModelInferResponseConverter(converters.ModelInferResponseConverter):
    @staticmethod
    def from_types(type_object: InferenceResponse, use_raw: bool = False) -> ModelInferResponse:
        message = converters.ModelInferResponseConverter.from_types(type_object, use_raw)
        for tensor in message.outputs:
            tensor.contents.SetInParent()
        return message


class InferInputTensorConverter(converters.InferInputTensorConverter):
    @staticmethod
    def from_types(type_object: RequestInput) -> ModelInferRequest.InferInputTensor:
        request = InferenceRequest(inputs=[type_object])
        # A tensor without values may have any datatype, including those without typed contents.
        return ModelInferRequestConverter.from_types(request, "", use_raw=not len(type_object.data)).inputs[0]


class InferOutputTensorConverter(converters.InferOutputTensorConverter):
    @staticmethod
    def from_types(type_object: ResponseOutput) -> ModelInferResponse.InferOutputTensor:
        response = InferenceResponse(model_name="", outputs=[type_object])
        return ModelInferResponseConverter.from_types(response).outputs[0]

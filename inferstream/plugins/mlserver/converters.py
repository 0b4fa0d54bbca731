"""Converters between protocol types and gRPC messages that match the tensors of MLServer.

MLServer tensors always have `contents`, which are empty if the message has raw contents. Messages of
inferstream omit `contents` in that case, because Triton and KServe reject requests with both.
"""

from collections.abc import Mapping
from typing import Any

from google.protobuf.message import Message

from inferstream.ext.rpc import ModelInferRequestConverter as RequestConverter
from inferstream.ext.rpc import ModelInferResponse
from inferstream.ext.rpc import ModelInferResponseConverter as ResponseConverter
from inferstream.types import (
    InferenceRequest,
    InferenceResponse,
    Parameters,
    RequestInput,
    RequestOutput,
    ResponseOutput,
    TensorData,
)

from . import messages


class ModelInferRequestConverter(RequestConverter):
    @staticmethod
    def to_types(pb_object: Any) -> InferenceRequest:
        """Convert a request message. As in MLServer, a missing id is an empty string."""
        request = RequestConverter.to_types(pb_object)
        fields: dict[str, Any] = {"id": pb_object.id, "inputs": request.inputs, "outputs": request.outputs}
        if pb_object.parameters:
            fields["parameters"] = request.parameters
        return InferenceRequest.model_construct(**fields)

    @staticmethod
    def from_types(
        type_object: InferenceRequest, model_name: str, model_version: str | None = "", use_raw: bool = False
    ) -> Any:
        given = RequestConverter.from_types
        message = given(type_object, model_name, model_version, use_raw)
        for tensor in message.inputs:
            tensor.contents.SetInParent()
        return message


class ModelInferResponseConverter(ResponseConverter):
    @staticmethod
    def from_types(type_object: InferenceResponse, use_raw: bool = False) -> ModelInferResponse:
        message = ResponseConverter.from_types(type_object, use_raw)
        for tensor in message.outputs:
            tensor.contents.SetInParent()
        return message


class InferInputTensorConverter:
    @staticmethod
    def to_types(pb_object: Any) -> RequestInput:
        if not _has_values(pb_object):
            return RequestInput(**_without_values(pb_object))
        return _build_request(inputs=[pb_object]).inputs[0]

    @staticmethod
    def from_types(type_object: RequestInput) -> Any:
        request = InferenceRequest(inputs=[type_object])
        # A tensor without values can have any datatype, including datatypes without typed contents.
        return ModelInferRequestConverter.from_types(request, "", use_raw=not len(type_object.data)).inputs[0]


class InferRequestedOutputTensorConverter:
    @staticmethod
    def to_types(pb_object: Any) -> RequestOutput:
        return (_build_request(outputs=[pb_object]).outputs or [])[0]

    @staticmethod
    def from_types(type_object: RequestOutput) -> Any:
        request = InferenceRequest(inputs=[], outputs=[type_object])
        return ModelInferRequestConverter.from_types(request, "").outputs[0]


class InferOutputTensorConverter:
    @staticmethod
    def to_types(pb_object: Any) -> ResponseOutput:
        if not _has_values(pb_object):
            return ResponseOutput(**_without_values(pb_object))
        response = ModelInferResponse(outputs=[pb_object])
        return ResponseConverter.to_types(response).outputs[0]

    @staticmethod
    def from_types(type_object: ResponseOutput) -> Any:
        response = InferenceResponse(model_name="", outputs=[type_object])
        return ModelInferResponseConverter.from_types(response).outputs[0]


class InferTensorContentsConverter:
    @staticmethod
    def to_types(pb_object: Message) -> TensorData:
        filled = pb_object.ListFields()
        return TensorData(list(filled[0][1]) if filled else [])

    @staticmethod
    def from_types(type_object: TensorData | list[Any], datatype: str) -> Any:
        data = type_object if isinstance(type_object, TensorData) else TensorData(type_object)
        tensor = RequestInput(name="", shape=[len(data.flat())], datatype=datatype, data=data)
        return ModelInferRequestConverter.from_types(InferenceRequest(inputs=[tensor]), "").inputs[0].contents


class ParametersConverter:
    @staticmethod
    def to_types(pb_object: Mapping[str, Any]) -> Parameters | None:
        return _build_request(parameters=pb_object).parameters if pb_object else None

    @staticmethod
    def from_types(type_object: Parameters | None) -> Mapping[str, Any]:
        request = InferenceRequest(inputs=[], parameters=type_object)
        parameters: Mapping[str, Any] = ModelInferRequestConverter.from_types(request, "").parameters
        return parameters


def _build_request(**fields: Any) -> InferenceRequest:
    """Return the request for a message with these fields."""
    return RequestConverter.to_types(messages.ModelInferRequest(**fields))


def _has_values(message: Any) -> bool:
    return bool(message.contents.ListFields())


def _without_values(message: Any) -> dict[str, Any]:
    return {
        "name": message.name,
        "datatype": message.datatype,
        "shape": list(message.shape),
        "parameters": ParametersConverter.to_types(message.parameters),
        "data": [],
    }

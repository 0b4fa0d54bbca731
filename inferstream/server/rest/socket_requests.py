"""Reads the requests in messages of a WebSocket: V2, or the flat JSON of `generate`."""

from typing import Any

from ...dataplane.admission import Admission
from ...errors import InvalidRequest
from ...protos.websocket import FlatMessages, Messages, SocketMessage, V2Messages
from ...types import InferenceRequest
from .dialects.triton import is_flat, read_flat


def read_message(admission: Admission, frame: SocketMessage) -> tuple[InferenceRequest, Messages]:
    """The request in a message, and what writes its responses. Raises InvalidRequest."""
    if frame.flat and is_flat(admission, frame.document):
        request, values = read_flat(admission, _without_model(admission, frame.document), frame.text)
        return request, FlatMessages(request.id is not None, values)
    request, binary = frame.request(nested=admission.pipeline.takes_any)
    return request, V2Messages(binary)


def _without_model(admission: Admission, document: dict[str, Any]) -> dict[str, Any]:
    """Flat JSON without `model`, which names the model of the connection unless the model has such an input."""
    signature = admission.signature
    inputs = signature.inputs or signature.described
    if "model" not in document or any(tensor.name == "model" for tensor in inputs):
        return document
    if document["model"] != admission.model:
        raise InvalidRequest(
            f'"model" names another model than this connection, which is "{admission.model}"'
        )
    return {name: value for name, value in document.items() if name != "model"}

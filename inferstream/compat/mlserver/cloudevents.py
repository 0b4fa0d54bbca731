"""Names of the CloudEvents headers."""

from enum import Enum
from pathlib import Path

from inferstream import ModelSettings, Settings
from inferstream.dataplane.cloudevents import CloudEvents
from inferstream.types import InferenceRequest, InferenceResponse, Parameters

from .middleware import InferenceMiddleware

CLOUDEVENTS_HEADER_ENDPOINT = "Ce-Endpoint"
CLOUDEVENTS_HEADER_ID = "Ce-Id"
CLOUDEVENTS_HEADER_INFERENCE_SERVICE = "Ce-Inferenceservicename"
CLOUDEVENTS_HEADER_MODEL_ID = "Ce-Modelid"
CLOUDEVENTS_HEADER_NAMESPACE = "Ce-Namespace"
CLOUDEVENTS_HEADER_REQUEST_ID = "Ce-Requestid"
CLOUDEVENTS_HEADER_SOURCE = "Ce-Source"
CLOUDEVENTS_HEADER_SPECVERSION = "Ce-Specversion"
CLOUDEVENTS_HEADER_SPECVERSION_DEFAULT = "0.3"
CLOUDEVENTS_HEADER_TYPE = "Ce-Type"

NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class CloudEventsTypes(Enum):
    """What an event is."""

    Request = "io.seldon.serving.inference.request"
    Response = "io.seldon.serving.inference.response"


class CloudEventsMiddleware(InferenceMiddleware):
    """Gives requests and responses their headers; the server gives them itself, as `cloudevents_headers` says."""

    def __init__(self, settings: Settings) -> None:
        self._events = CloudEvents(settings.server_name)

    def request_middleware(
        self, request: InferenceRequest, model_settings: ModelSettings
    ) -> InferenceRequest:
        self._add(request, model_settings.name, CloudEventsTypes.Request)
        return request

    def response_middleware(
        self, response: InferenceResponse, model_settings: ModelSettings
    ) -> InferenceResponse:
        self._add(response, model_settings.name, CloudEventsTypes.Response)
        return response

    def _add(self, payload: InferenceRequest | InferenceResponse, model: str, type: CloudEventsTypes) -> None:
        parameters = payload.parameters or Parameters()
        headers = {**(parameters.headers or {}), **self._events.of_model(model, type.value)}
        if payload.id:
            headers |= {CLOUDEVENTS_HEADER_ID: payload.id, CLOUDEVENTS_HEADER_REQUEST_ID: payload.id}
        parameters.headers = headers
        payload.parameters = parameters


def get_namespace() -> str | None:
    """The Kubernetes namespace this process runs in; None outside of one."""
    try:
        return NAMESPACE.read_text()
    except OSError:
        return None


__all__ = [
    "CLOUDEVENTS_HEADER_ENDPOINT",
    "CLOUDEVENTS_HEADER_ID",
    "CLOUDEVENTS_HEADER_INFERENCE_SERVICE",
    "CLOUDEVENTS_HEADER_MODEL_ID",
    "CLOUDEVENTS_HEADER_NAMESPACE",
    "CLOUDEVENTS_HEADER_REQUEST_ID",
    "CLOUDEVENTS_HEADER_SOURCE",
    "CLOUDEVENTS_HEADER_SPECVERSION",
    "CLOUDEVENTS_HEADER_SPECVERSION_DEFAULT",
    "CLOUDEVENTS_HEADER_TYPE",
    "CloudEventsMiddleware",
    "CloudEventsTypes",
    "get_namespace",
]

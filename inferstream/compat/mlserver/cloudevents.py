"""Names of the CloudEvents headers."""

from enum import Enum
from pathlib import Path

from inferstream.compat.replaced import Replaced

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


class CloudEventsMiddleware(Replaced):
    """Gives requests and responses their headers."""

    instead = "the server gives them where somebody reads them"


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

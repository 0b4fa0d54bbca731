"""CloudEvents headers as MLServer sends them, for loggers and routers of its deployments."""

from functools import lru_cache, partial
from pathlib import Path

from inferstream import Settings
from inferstream.plugins.cloudevents.settings import CloudEventsSettings

from ..types import Headers, InferenceRequest

NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

ID, REQUEST_ID = "Ce-Id", "Ce-Requestid"

REQUEST = "io.seldon.serving.inference.request"
RESPONSE = "io.seldon.serving.inference.response"


def wanted(settings: Settings) -> bool:
    """Whether to send these headers. Their readers run in Kubernetes, so the default is on only there."""
    chosen = settings.section(CloudEventsSettings).cloudevents_headers
    return bool(namespace()) if chosen is None else chosen


class CloudEvents:
    """The headers of requests and responses of all models of one server."""

    def __init__(self, server_name: str) -> None:
        self._server = server_name
        self._namespace = namespace()
        self.of_model = lru_cache(1024)(self._of_model)

    def add_to(self, request: InferenceRequest, model: str) -> None:
        """Add these headers to a request with an id. They are made when a model reads them."""
        parameters = request.parameters
        headers = None if parameters is None else parameters.headers
        if type(headers) is Headers:
            assert parameters is not None
            more = partial(self._of_request, model, request.id)
            parameters.carry(Headers(headers.raw, more))

    def _of_request(self, model: str, id: str | None) -> dict[str, str]:
        shared = self.of_model(model, REQUEST)
        return {**shared, ID: id, REQUEST_ID: id} if id else shared

    def _of_model(self, model: str, type: str) -> dict[str, str]:
        """The headers that all requests, or all responses, of a model share."""
        source = f"io.seldon.serving.deployment.{self._server}"
        headers = {
            "Ce-Specversion": "0.3",
            "Ce-Source": f"{source}.{self._namespace}" if self._namespace else source,
            "Ce-Type": type,
            "Ce-Modelid": model,
            "Ce-Inferenceservicename": self._server,
            "Ce-Endpoint": model,
        }
        if self._namespace:
            headers["Ce-Namespace"] = self._namespace
        return headers


def namespace() -> str:
    """The Kubernetes namespace of this process; empty elsewhere."""
    try:
        return NAMESPACE_FILE.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""

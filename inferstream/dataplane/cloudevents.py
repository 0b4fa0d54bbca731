"""CloudEvents headers as MLServer sends them, for loggers and routers of its deployments."""

from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from inferstream import Settings
from inferstream.ext.calls import ServerParts, StageContext, StagedModel, WorkerEdge
from inferstream.plugins.cloudevents.settings import CloudEventsSettings

from ..types import Headers, InferenceRequest

Text = TypeVar("Text")

NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

ID, REQUEST_ID = "Ce-Id", "Ce-Requestid"

REQUEST = "io.seldon.serving.inference.request"
RESPONSE = "io.seldon.serving.inference.response"

LONGEST = 256
"""Characters of a header's value. A longer one is omitted, because clients refuse long heads."""

_AS_IT_IS = "".join(map(chr, range(0x20, 0x7F)))


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
        self._written = lru_cache(1024)(self._write)

    def add_to(self, request: InferenceRequest, model: str) -> None:
        """Add these headers to a request with an id. They are made when a model reads them."""
        parameters = request.parameters
        headers = None if parameters is None else parameters.headers
        if type(headers) is Headers:
            assert parameters is not None
            more = partial(self._of_request, model, request.id)
            parameters.carry(Headers(headers.raw, more))

    def headers(self, model: str, id: str | None, written: Callable[[str], Text]) -> list[tuple[Text, Text]]:
        """The headers of a response with an id; `written` converts a text to the type of the transport."""
        headers: list[tuple[Text, Text]] = [*self._written(model, written)]
        if id and (value := _value(id)):
            own = written(value)
            headers += ((written(ID.lower()), own), (written(REQUEST_ID.lower()), own))
        return headers

    def _write(self, model: str, written: Callable[[str], Text]) -> list[tuple[Text, Text]]:
        return [
            (written(name.lower()), written(value))
            for name, text in self.of_model(model, RESPONSE).items()
            if (value := _value(text))
        ]

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


def build_events(parts: ServerParts) -> CloudEvents | None:
    """The headers of a server; None if the settings turn them off."""
    settings = parts.settings
    return CloudEvents(settings.server_name) if wanted(settings) else None


def marking(model: StagedModel, shared: StageContext) -> StagedModel:
    """The stage that gives a model its headers."""
    events = shared.of(build_events)
    return model if events is None else model.around(model.handler, marks=events)


class WorkerEvents(WorkerEdge):
    """Adds the headers to requests that come to a worker without them."""

    def __init__(self, given: Any) -> None:
        self.mark = CloudEvents(given).add_to

    @classmethod
    def of(cls, settings: Settings) -> str | None:
        return settings.server_name if wanted(settings) else None


def _value(text: str) -> str:
    """A text as a header's value, percent-encoded if necessary; empty for one that is too long."""
    if not (text.isascii() and text.isprintable()):
        text = quote(text, safe=_AS_IT_IS)
    return text if len(text) <= LONGEST else ""


def namespace() -> str:
    """The Kubernetes namespace of this process; empty elsewhere."""
    try:
        return NAMESPACE_FILE.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""

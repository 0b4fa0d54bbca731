"""CloudEvents headers in the format of MLServer, for loggers and routers of its deployments."""

from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from inferstream import Settings
from inferstream.ext.calls import ServerParts, StageContext, StagedModel, WorkerEdge
from inferstream.types import Headers, InferenceRequest

from .settings import CloudEventsSettings

Text = TypeVar("Text")

NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

ID, REQUEST_ID = "Ce-Id", "Ce-Requestid"

REQUEST = "io.seldon.serving.inference.request"
RESPONSE = "io.seldon.serving.inference.response"

MAX_VALUE_LENGTH = 256
"""Maximum length of a header value in characters.

Longer ones are omitted, because clients limit header sizes.
"""

_AS_IT_IS = "".join(map(chr, range(0x20, 0x7F)))


def should_send(settings: Settings) -> bool:
    """Whether to send these headers. By default, only in Kubernetes, where their consumers run."""
    chosen = settings.section(CloudEventsSettings).cloudevents_headers
    return bool(namespace()) if chosen is None else chosen


class CloudEvents:
    """The CloudEvents headers of one server's requests and responses."""

    def __init__(self, server_name: str) -> None:
        self._server = server_name
        self._namespace = namespace()
        self.of_model = lru_cache(1024)(self._model_headers)
        self._written = lru_cache(1024)(self._write)

    def add_to(self, request: InferenceRequest, model: str) -> None:
        """Add the headers to a request. They are generated when a model reads them."""
        parameters = request.parameters
        headers = None if parameters is None else parameters.headers
        if type(headers) is Headers:
            assert parameters is not None
            more = partial(self._request_headers, model, request.id)
            parameters.carry(Headers(headers.raw, more))

    def headers(self, model: str, id: str | None, written: Callable[[str], Text]) -> list[tuple[Text, Text]]:
        """Return the headers of a response. `written` converts a string to the type of the transport."""
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

    def _request_headers(self, model: str, id: str | None) -> dict[str, str]:
        shared = self.of_model(model, REQUEST)
        return {**shared, ID: id, REQUEST_ID: id} if id else shared

    def _model_headers(self, model: str, type: str) -> dict[str, str]:
        """Return the headers that all requests, or all responses, of a model share."""
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
    """Build the headers of a server, or return None if the settings disable them."""
    settings = parts.settings
    return CloudEvents(settings.server_name) if should_send(settings) else None


def marking(model: StagedModel, shared: StageContext) -> StagedModel:
    """Add the headers to a model's requests and responses, if the settings enable them."""
    events = shared.of(build_events)
    return model if events is None else model.around(model.handler, marks=events)


class WorkerEvents(WorkerEdge):
    """Adds the headers to requests that arrive at a worker without them."""

    def __init__(self, given: Any) -> None:
        self.mark = CloudEvents(given).add_to

    @classmethod
    def of(cls, settings: Settings) -> str | None:
        return settings.server_name if should_send(settings) else None


def _value(text: str) -> str:
    """Encode a header value, with percent-encoding if necessary. Empty if it is too long."""
    if not (text.isascii() and text.isprintable()):
        text = quote(text, safe=_AS_IT_IS)
    return text if len(text) <= MAX_VALUE_LENGTH else ""


def namespace() -> str:
    """Return the Kubernetes namespace of this process. Empty outside of Kubernetes."""
    try:
        return NAMESPACE_FILE.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""

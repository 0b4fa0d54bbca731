"""The headers of an inference's response, except those of its content."""

from ...dataplane.cloudevents import CloudEvents
from ...types import InferenceResponse
from ..headers import EventHeaders, model_headers
from .messages import RawHeaders

NOT_FOR_MODELS = frozenset(
    (
        b"connection",
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"date",
        b"inference-header-content-length",
        b"keep-alive",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"x-stream-dialect",
    )
)
"""Headers that describe the message itself; with one of a model's the client could not read the response."""


class ResponseHeaders:
    """The server's CloudEvents headers, if any, and the model's own headers, which override them."""

    def __init__(self, events: CloudEvents | None) -> None:
        self._events = None if events is None else EventHeaders(events, str.encode)

    def __call__(self, response: InferenceResponse, model: str) -> RawHeaders:
        own = _sendable(response)
        if self._events is None:
            return own
        names = {name for name, _ in own}
        return [pair for pair in self._events.of(model, response.id) if pair[0] not in names] + own


def _sendable(response: InferenceResponse) -> RawHeaders:
    sendable = []
    for name, value in model_headers(response.parameters):
        key = name.encode("latin-1", "replace")
        if key not in NOT_FOR_MODELS and value.isprintable() and key.replace(b"-", b"").isalnum():
            sendable.append((key, value.encode("latin-1", "replace")))
    return sendable

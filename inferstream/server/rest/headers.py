"""The headers that an inference's answer has beside its content's."""

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
"""Headers that describe the message itself; a model that sets one would break the connection, or its reader."""


class ResponseHeaders:
    """The server's CloudEvents, where it makes any, and the model's own headers, which go before them."""

    def __init__(self, events: CloudEvents | None) -> None:
        self._events = None if events is None else EventHeaders(events, str.encode)

    def __call__(self, response: InferenceResponse, model: str) -> RawHeaders:
        """The headers of an answer of `model`."""
        found = [] if self._events is None else self._events.of(model, response.id)
        if response.parameters is None or response.parameters.headers is None:
            return found
        own = _sendable(response)
        names = {name for name, _ in own}
        return [pair for pair in found if pair[0] not in names] + own


def _sendable(response: InferenceResponse) -> RawHeaders:
    found = []
    for name, value in model_headers(response.parameters):
        key = name.encode("latin-1", "replace")
        if key not in NOT_FOR_MODELS and value.isprintable() and key.replace(b"-", b"").isalnum():
            found.append((key, value.encode("latin-1", "replace")))
    return found

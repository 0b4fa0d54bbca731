"""Headers of responses: the server's CloudEvents, and the headers that a model has set."""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from ..dataplane.cloudevents import ID, REQUEST_ID, RESPONSE, CloudEvents
from ..types import Headers, Parameters

Text = TypeVar("Text")

LONGEST = 256
"""Characters of a CloudEvents header's value. A longer one is omitted, because clients refuse long heads."""

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

_AS_IT_IS = "".join(map(chr, range(0x20, 0x7F)))


class ResponseHeaders(Generic[Text]):
    """The server's CloudEvents headers, if any, and the model's own headers, which override them."""

    def __init__(
        self,
        events: CloudEvents | None,
        written: Callable[[str], Text],
        sendable: Callable[[Iterable[tuple[str, str]]], list[tuple[Text, Text]]],
    ) -> None:
        """`written` converts a text to the type of the transport. `sendable` chooses what it can carry of a model's."""
        self._events = events
        self._written = written
        self._sendable = sendable
        self._id, self._request_id = written(ID.lower()), written(REQUEST_ID.lower())
        self._shared = lru_cache(1024)(self._of_model)

    def of(self, model: str, id: str | None, parameters: Parameters | None) -> list[tuple[Text, Text]]:
        """The headers of a response of `model` with these parameters."""
        own = self._sendable(model_headers(parameters))
        if self._events is None:
            return own
        names = {name for name, _ in own}
        return [pair for pair in self._of_events(model, id) if pair[0] not in names] + own

    def _of_events(self, model: str, id: str | None) -> list[tuple[Text, Text]]:
        headers = [*self._shared(model)]
        if id and (value := _value(id)):
            own = self._written(value)
            headers += ((self._id, own), (self._request_id, own))
        return headers

    def _of_model(self, model: str) -> list[tuple[Text, Text]]:
        assert self._events is not None
        return [
            (self._written(name.lower()), self._written(value))
            for name, text in self._events.of_model(model, RESPONSE).items()
            if (value := _value(text))
        ]


def _value(text: str) -> str:
    """A text as a header's value, percent-encoded if necessary; empty for one that is too long."""
    if not (text.isascii() and text.isprintable()):
        text = quote(text, safe=_AS_IT_IS)
    return text if len(text) <= LONGEST else ""


def model_headers(parameters: Parameters | None) -> Iterator[tuple[str, str]]:
    """The headers that a model has set, names in lower case, without those of the request that it echoes."""
    headers: Any = None if parameters is None else parameters.headers
    if headers and not isinstance(headers, Headers):
        for name, value in headers.items():
            yield str(name).lower(), str(value)


def sendable(headers: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    """The headers of model code that a response over HTTP can have, with names in lower case."""
    chosen = []
    for name, value in headers:
        key = name.lower().encode("latin-1", "replace")
        if key not in NOT_FOR_MODELS and value.isprintable() and key.replace(b"-", b"").isalnum():
            chosen.append((key, value.encode("latin-1", "replace")))
    return chosen

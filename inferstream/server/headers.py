"""Response headers that stages or models add."""

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from ..dataplane.admission import Admission
from ..types import Parameters

Text = TypeVar("Text")

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
"""Headers that describe the message itself. If a model overrode them, clients could not read the response."""


class ResponseHeaders(Generic[Text]):
    """The headers that a stage adds to responses, if any, overridden by the headers that the model sets."""

    def __init__(
        self,
        written: Callable[[str], Text],
        sendable: Callable[[Iterable[tuple[str, str]]], list[tuple[Text, Text]]],
    ) -> None:
        """`written` encodes a string for the transport.

        `sendable` selects and encodes the model's headers that the transport can send.
        """
        self._written = written
        self._sendable = sendable

    def collect(
        self, admission: Admission, id: str | None, parameters: Parameters | None
    ) -> list[tuple[Text, Text]]:
        """Return the headers of a response with this id and these parameters."""
        own = self._sendable(Admission.model_headers(parameters))
        marks = admission.pipeline.marks
        if marks is None:
            return own
        names = {name for name, _ in own}
        marked = marks.headers(admission.model, id, self._written)
        return [pair for pair in marked if pair[0] not in names] + own


def select_sendable(headers: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    """Select the model's headers that an HTTP response can carry, with names in lower case."""
    chosen = []
    for name, value in headers:
        key = name.lower().encode("latin-1", "replace")
        if key not in NOT_FOR_MODELS and value.isprintable() and key.replace(b"-", b"").isalnum():
            chosen.append((key, value.encode("latin-1", "replace")))
    return chosen

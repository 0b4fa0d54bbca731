"""CloudEvents 1.0 envelopes of KServe V1 requests. Responses use the same mode."""

import base64
import binascii
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import uuid4

import msgspec
import orjson

from inferstream.errors import InvalidRequest, UnsupportedEncoding
from inferstream.ext.calls import Reply
from inferstream.ext.http import Gathering, GatheringRequest, ParsedRequest, RawHeaders
from inferstream.types import InferenceResponse

STRUCTURED = b"application/cloudevents+json"
BATCHED = b"application/cloudevents-batch+json"
NEEDED = ("specversion", "id", "source", "type")
RESPONSE = "io.kserve.inference.response"
SOURCE = "io.kserve.inference."
"""Type and source of response events, as in KServe. The model's name is appended to the source."""


class AroundEvent(NamedTuple):
    """The event that contained a request."""

    structured: bool
    """Whether the event is the body (structured mode). Otherwise its attributes are headers (binary mode)."""

    def wrap(self, model: str, headers: RawHeaders, body: bytes) -> tuple[RawHeaders, bytes]:
        """Wrap the response in an event."""
        attributes = {
            "specversion": "1.0",
            "id": str(uuid4()),
            "source": f"{SOURCE}{model}",
            "type": RESPONSE,
            "time": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
        }
        if not self.structured:
            own = [(f"ce-{name}".encode(), value.encode()) for name, value in attributes.items()]
            return headers + own, body
        document = {**attributes, "datacontenttype": "application/json", "data": orjson.Fragment(body)}
        return [(b"content-type", STRUCTURED)], orjson.dumps(document)


def read_event(
    media_type: bytes, headers: RawHeaders, body: bytes, check: Callable[[bytes], None]
) -> tuple[AroundEvent | None, bytes]:
    """Return the event of a request, or None, and its data. Raises InvalidRequest or UnsupportedEncoding.

    `check` raises an error for JSON that exceeds the limits. The body has already passed this check, but
    base64 data counts as a single string there, so the decoded JSON is checked again.
    """
    kind = media_type.partition(b";")[0].strip().lower()
    if kind == BATCHED:
        raise UnsupportedEncoding("Events come one by one, and not in batches.")
    if kind == STRUCTURED:
        return AroundEvent(True), _data(body, check)
    if not any(name == b"ce-specversion" for name, _ in headers):
        return None, body
    if kind not in (b"", b"application/json") and not kind.endswith(b"+json"):
        raise UnsupportedEncoding(
            "The data of an event must be JSON; other data stand in data_base64 of an event that is the body."
        )
    return AroundEvent(False), body


def _data(body: bytes, check: Callable[[bytes], None]) -> bytes:
    """Return the data of an event in structured mode, unmodified.

    Data other than JSON becomes the only instance.
    """
    try:
        fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])  # The data is not parsed.
        event = {name: msgspec.json.decode(raw) for name, raw in fields.items() if name != "data"}
    except msgspec.ValidationError:
        raise InvalidRequest("The event must be a JSON object.") from None
    except msgspec.DecodeError as error:
        raise InvalidRequest(f"The event is not valid JSON: {error}") from None
    for name in NEEDED:
        if not isinstance(event.get(name), str):
            raise InvalidRequest(f'The event has no attribute "{name}".')
    if "data" in fields:
        return bytes(fields["data"])
    coded = event.get("data_base64")
    if not isinstance(coded, str):
        raise InvalidRequest("The event has neither data nor data_base64.")
    try:
        data = base64.b64decode(coded, validate=True)
        if not _is_json(event):
            return orjson.dumps({"instances": [data.decode()]})
    except (binascii.Error, ValueError):
        raise InvalidRequest("The data_base64 of the event is no text in base64.") from None
    check(data)
    return data


def _is_json(event: Mapping[str, Any]) -> bool:
    return "json" in str(event.get("datacontenttype", "json"))


class EventRequest(GatheringRequest):
    """A request in an event, with the response in an event."""

    __slots__ = ("_asked", "_event", "_gathering")

    def __init__(self, asked: ParsedRequest, event: AroundEvent) -> None:
        self.admission = asked.admission
        self.operation = asked.operation
        self.request = asked.request
        self._asked = asked
        self._event = event
        self._gathering = asked.gathering()

    async def open(self) -> Reply:
        return await self._asked.open()

    def gathering(self) -> Gathering | None:
        return None if self._gathering is None else self

    def response(self, response: InferenceResponse) -> tuple[RawHeaders, bytes]:
        return self._event.wrap(self.admission.model, *self._asked.response(response))

    def add(self, response: InferenceResponse) -> bool:
        assert self._gathering is not None
        return self._gathering.add(response)

    def end(self) -> tuple[RawHeaders, bytes]:
        assert self._gathering is not None
        return self._event.wrap(self.admission.model, *self._gathering.end())

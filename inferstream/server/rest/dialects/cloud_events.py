"""CloudEvents 1.0 around a request of KServe's V1, and around its response in the same mode."""

import base64
import binascii
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import uuid4

import msgspec
import orjson

from inferstream.ext.calls import Reply
from inferstream.ext.http import Gathering, GatheringRequest, ParsedRequest, RawHeaders

from ....errors import InvalidRequest, UnsupportedEncoding
from ....types import InferenceResponse

STRUCTURED = b"application/cloudevents+json"
BATCHED = b"application/cloudevents-batch+json"
NEEDED = ("specversion", "id", "source", "type")
RESPONSE = "io.kserve.inference.response"
SOURCE = "io.kserve.inference."
"""What KServe's servers say of their responses; the model's name follows."""


class AroundEvent(NamedTuple):
    """The event that a request came in."""

    structured: bool
    """Whether it is the body; else its attributes are headers."""

    def around(self, model: str, headers: RawHeaders, body: bytes) -> tuple[RawHeaders, bytes]:
        """The response in an event of its own."""
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
    """The event of a request, if it is one, and its data. Raises InvalidRequest, UnsupportedEncoding.

    `check` raises for JSON beyond the limits. The body has passed it, but JSON in base64 is one string there.
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
    """The data of an event in structured mode, as they were sent. Data that are not JSON become the only instance."""
    try:
        fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])  # no objects are made of the data
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
    """A request that came in an event, and gets its response in one."""

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
        return self._event.around(self.admission.model, *self._asked.response(response))

    def add(self, response: InferenceResponse) -> bool:
        assert self._gathering is not None
        return self._gathering.add(response)

    def end(self) -> tuple[RawHeaders, bytes]:
        assert self._gathering is not None
        return self._event.around(self.admission.model, *self._gathering.end())

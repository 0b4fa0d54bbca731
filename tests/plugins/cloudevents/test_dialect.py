"""The event around a request, and the one around its response. Those of whole requests are in KServe's tests."""

import json

import orjson
import pytest

from inferstream.errors import InvalidRequest, UnsupportedEncoding
from inferstream.plugins.cloudevents.dialect import BATCHED, SOURCE, STRUCTURED, AroundEvent, read_event

ATTRIBUTES = {"specversion": "1.0", "id": "1", "source": "tests", "type": "asked"}
HEADERS = [(f"ce-{name}".encode(), value.encode()) for name, value in ATTRIBUTES.items()]


def refuse(data: bytes) -> None:
    raise AssertionError("only data in base64 are checked again")


def test_event_data_is_unchanged() -> None:
    event = json.dumps({**ATTRIBUTES, "data": {"a": [1.0]}}).encode()
    assert read_event(STRUCTURED, [], event, refuse) == (AroundEvent(True), b'{"a": [1.0]}')
    assert read_event(b"", HEADERS, b"{}", refuse) == (AroundEvent(False), b"{}")
    assert read_event(b"", [], b"{}", refuse) == (None, b"{}")


@pytest.mark.parametrize("missing", ATTRIBUTES)
def test_event_with_missing_attribute_is_refused_by_name(missing: str) -> None:
    event = {name: value for name, value in ATTRIBUTES.items() if name != missing}
    with pytest.raises(InvalidRequest, match=f'no attribute "{missing}"'):
        read_event(STRUCTURED, [], json.dumps({**event, "data": {}}).encode(), refuse)


@pytest.mark.parametrize(("kind", "headers"), [(BATCHED, []), (b"text/plain", HEADERS)])
def test_batches_and_text_are_refused(kind: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    with pytest.raises(UnsupportedEncoding):
        read_event(kind, headers, b"[]", refuse)


@pytest.mark.parametrize("structured", [False, True])
def test_response_is_event_in_same_mode(structured: bool) -> None:
    headers, body = AroundEvent(structured).wrap("m", [], b"{}")
    attributes = orjson.loads(body) if structured else {name[3:].decode(): v.decode() for name, v in headers}
    assert attributes["source"] == f"{SOURCE}m"
    assert attributes.get("data") == ({} if structured else None)

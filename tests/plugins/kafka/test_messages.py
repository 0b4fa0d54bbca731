"""What a message asks for."""

import json
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest

from inferstream.errors import InferstreamError, InvalidRequest, PayloadTooLarge, Unsupported
from inferstream.ext.calls import Admission, Caller
from inferstream.ext.http import JsonLimits
from inferstream.plugins.kafka.messages import admit_record, build_error_message, parse_request
from inferstream.types import InferenceRequest


class Record(NamedTuple):
    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = (("mlserver-model", b"m"),)


LIMITS = JsonLimits(1000, 8, 100)
VALUE = json.dumps(
    {"id": "a", "inputs": [{"name": "x", "datatype": "INT32", "shape": [1], "data": [1]}]}
).encode()


def admit(model: str, version: str | None, caller: Caller) -> Admission:
    return Admission(
        cast(Any, SimpleNamespace(pipeline=SimpleNamespace(takes_any=False))),
        cast(Any, None),
        model,
        version,
        caller,
    )


def asked(record: Record) -> tuple[Admission, InferenceRequest]:
    admission = admit_record(record, admit)
    return admission, parse_request(record, LIMITS, admission)


def test_record_becomes_request() -> None:
    headers = (
        ("mlserver-model", b"m"),
        ("mlserver-version", b"2"),
        ("mlserver-method", b"infer"),
        ("X-A", b"1"),
    )
    admission, request = asked(Record(VALUE, b"key", headers))
    caller = admission.caller
    assert (admission.model, admission.version, request.id, caller.headers["x-a"]) == ("m", "2", "key", "1")
    assert caller.dialect == "kafka"
    assert asked(Record(VALUE))[1].id == "a"
    both = Record(VALUE, None, (("mlserver-model", b"x"), ("inferstream-model", b"y")))
    assert asked(both)[0].model == "y"


@pytest.mark.parametrize(
    ("record", "error"),
    [
        (Record(VALUE, None, ()), InvalidRequest),
        (Record(None), InvalidRequest),
        (Record(b"\xff"), InvalidRequest),
        (Record(VALUE, b"a\nb"), InvalidRequest),
        (Record(VALUE, b"a" * 5000), InvalidRequest),
        (Record(VALUE + b" " * 1000), PayloadTooLarge),
        (Record(VALUE, None, (("mlserver-model", b"m"), ("mlserver-method", b"stream"))), Unsupported),
    ],
)
def test_empty_record_is_refused(record: Record, error: type[InferstreamError]) -> None:
    with pytest.raises(error) as raised:
        asked(record)
    message = build_error_message(record, raised.value)
    assert message.key == record.key
    assert json.loads(message.value)["code"] == raised.value.code.value

"""Failures of calls, as servers and transports tell them."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import orjson
import pytest

from inferstream.clients.failures import in_band, message_in, of_http, seconds_of, too_late
from inferstream.errors import CallTimedOut, Code
from inferstream.statuses import TABLE


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error":"why"}', "why"),
        (b'{"detail":"of MLServer"}', "of MLServer"),
        (b'{"detail":[{"loc":["a"]}]}', '[{"loc":["a"]}]'),
        (b"<html>" + b"x" * 600, "<html>" + "x" * 494),
        (b"[1]", "[1]"),
        (b"\xff", "�"),
    ],
)
def test_the_message_of_a_body(body: bytes, message: str) -> None:
    assert message_in(body) == message


@pytest.mark.parametrize("code", Code)
def test_an_error_in_a_stream_has_the_status_of_its_code(code: Code) -> None:
    failed = in_band(orjson.dumps({"error": "why", "code": code.value}))
    assert (failed.message, failed.status) == ("why", TABLE[code].http)
    assert isinstance(failed, CallTimedOut) is (code is Code.DEADLINE_EXCEEDED)


@pytest.mark.parametrize("body", [b"{}", b"no json", b"[]", b'{"code":"new"}'])
def test_an_error_in_a_stream_without_a_known_code_is_one_of_the_server(body: bytes) -> None:
    assert in_band(body).status == 500


def test_an_empty_body_leaves_the_reason_of_the_status_line() -> None:
    failed = of_http(503, b"", "Service Unavailable", "2")
    assert (failed.message, failed.retry_after, failed.retryable) == ("Service Unavailable", 2.0, True)
    assert not of_http(400, b"", "Bad Request", None).retryable


def test_a_limit_that_has_passed_here_is_a_time_out() -> None:
    failed = too_late(2.5)
    assert isinstance(failed, TimeoutError)
    assert (str(failed), failed.status) == ("no answer within 2.5 s", 504)


def test_seconds_are_read_from_both_forms_of_retry_after() -> None:
    assert seconds_of("3") == 3.0
    assert seconds_of("-3") == 0.0
    later = seconds_of(format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True))
    assert later is not None
    assert 25 < later <= 30
    assert seconds_of("soon") is None
    assert seconds_of(None) is None

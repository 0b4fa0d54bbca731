"""Failures of calls, as servers and transports tell them."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import orjson
import pytest

from inferstream.clients.failures import (
    build_timeout_error,
    http_error,
    parse_message,
    parse_retry_after,
    parse_stream_error,
)
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
def test_error_message_is_read_from_the_body(body: bytes, message: str) -> None:
    assert parse_message(body) == message


@pytest.mark.parametrize("code", Code)
def test_stream_error_has_the_status_of_its_code(code: Code) -> None:
    failed = parse_stream_error(orjson.dumps({"error": "why", "code": code.value}))
    assert (failed.message, failed.status) == ("why", TABLE[code].http)
    assert isinstance(failed, CallTimedOut) is (code is Code.DEADLINE_EXCEEDED)


@pytest.mark.parametrize("body", [b"{}", b"no json", b"[]", b'{"code":"new"}'])
def test_stream_error_without_known_code_is_a_server_error(body: bytes) -> None:
    assert parse_stream_error(body).status == 500


def test_empty_error_body_uses_the_reason_phrase() -> None:
    failed = http_error(503, b"", "Service Unavailable", "2")
    assert (failed.message, failed.retry_after, failed.retryable) == ("Service Unavailable", 2.0, True)
    assert not http_error(400, b"", "Bad Request", None).retryable


def test_local_deadline_is_a_timeout() -> None:
    failed = build_timeout_error(2.5)
    assert isinstance(failed, TimeoutError)
    assert (str(failed), failed.status) == ("no answer within 2.5 s", 504)


def test_retry_after_is_read_in_both_formats() -> None:
    assert parse_retry_after("3") == 3.0
    assert parse_retry_after("-3") == 0.0
    later = parse_retry_after(format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True))
    assert later is not None
    assert 25 < later <= 30
    assert parse_retry_after("soon") is None
    assert parse_retry_after(None) is None

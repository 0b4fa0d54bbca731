"""Heads, bodies, encodings and errors of HTTP."""

import orjson
import pytest

from inferstream.concurrency.scope import ClientLeft
from inferstream.dataplane.call import header_timeout
from inferstream.errors import InvalidRequest, Overloaded, PayloadTooLarge, UnsupportedEncoding
from inferstream.server.rest.messages import (
    Head,
    check_body_headers,
    choose_encoding,
    decompress_if_encoded,
    error_response,
    receive_all,
    wrap,
)


def test_last_repeated_header_applies() -> None:
    head = Head([(b"x-request-timeout", b"1"), (b"x-request-timeout", b"2")])
    assert (head.timeout, head.limited) == (b"2", True)
    assert not Head([]).limited


@pytest.mark.parametrize("value", [b"-1", b"11", b"x", b"9" * 21])
def test_invalid_json_length_is_refused(value: bytes) -> None:
    head = Head([(b"inference-header-content-length", value)])
    with pytest.raises(InvalidRequest, match="within the body's 10"):
        head.header_length(10)
    assert Head([(b"inference-header-content-length", b"4")]).header_length(10) == 4


@pytest.mark.parametrize("timeout", [b"0", b"-1", b"nan", b"soon", b"1e9"])
def test_timeout_must_be_positive(timeout: bytes) -> None:
    assert header_timeout(b"1.5") == 1.5
    with pytest.raises(InvalidRequest, match="positive number of seconds"):
        header_timeout(timeout)


def test_unacceptable_body_is_refused_by_its_head() -> None:
    with pytest.raises(PayloadTooLarge, match=r"the 10 bytes allowed \(setting max_body_bytes\)"):
        check_body_headers(Head([(b"content-length", b"11")]), 10)
    with pytest.raises(PayloadTooLarge, match=r"the 10 bytes allowed\.$"):
        decompress_if_encoded(Head([]), bytes(11), 10, "")
    with pytest.raises(UnsupportedEncoding):
        check_body_headers(Head([(b"content-type", b"multipart/form-data")]), 10)
    check_body_headers(Head([(b"content-type", b"multipart/form-data")]), 10, in_parts=True)
    with pytest.raises(UnsupportedEncoding, match="'br' is not gzip or deflate"):
        decompress_if_encoded(Head([(b"content-encoding", b"br")]), b"", 10)


@pytest.mark.parametrize(
    ("accept", "encoding"),
    [
        (b"gzip, deflate", b"gzip"),
        (b"deflate;q=1, gzip;q=0.5", b"deflate"),
        (b"gzip;q=0.1, identity;q=0.5", None),
        (b"gzip;q=0", None),
        (b"gzip;q=high", None),
        (b"br", None),
    ],
)
def test_preferred_client_encoding(accept: bytes, encoding: bytes | None) -> None:
    assert choose_encoding(accept) == encoding


async def test_body_arrives_in_messages() -> None:
    messages = iter([{"body": b"a", "more_body": True}, {"body": b"b"}])

    async def receive() -> dict[str, object]:
        return {"type": "http.request", **next(messages)}

    assert await receive_all(receive, 10) == b"ab"  # type: ignore[arg-type]

    async def disconnect() -> dict[str, object]:
        return {"type": "http.disconnect"}

    with pytest.raises(ClientLeft):
        await receive_all(disconnect, 10)  # type: ignore[arg-type]


def test_error_has_status_headers_and_document() -> None:
    status, headers, body = error_response(Overloaded("full"), "default")
    assert (status, orjson.loads(body)) == (429, {"error": "full"})
    assert (b"content-type", b"application/json") in headers
    status, _, body = error_response(InvalidRequest("wrong"), "mlserver")
    assert (status, orjson.loads(body)["detail"]) == (422, [{"type": "invalid", "msg": "wrong"}])


def test_unexpected_error_has_no_details(caplog: pytest.LogCaptureFixture) -> None:
    assert "secret" not in wrap(ValueError("secret")).message
    assert "secret" in caplog.text

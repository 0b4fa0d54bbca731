"""Heads, bodies, encodings and errors of HTTP."""

import orjson
import pytest

from inferstream.concurrency.scope import ClientLeft
from inferstream.dataplane.call import header_timeout
from inferstream.errors import InvalidRequest, Overloaded, PayloadTooLarge, UnsupportedEncoding
from inferstream.server.rest.messages import (
    Head,
    accepted,
    error_response,
    expect_body,
    plain,
    receive_all,
    wrap,
)


def test_of_a_repeated_header_the_last_counts() -> None:
    head = Head([(b"x-request-timeout", b"1"), (b"x-request-timeout", b"2")])
    assert (head.timeout, head.limited) == (b"2", True)
    assert not Head([]).limited


@pytest.mark.parametrize("value", [b"-1", b"11", b"x", b"9" * 21])
def test_a_length_of_json_that_is_none_is_refused(value: bytes) -> None:
    head = Head([(b"inference-header-content-length", value)])
    with pytest.raises(InvalidRequest, match="within the body's 10"):
        head.header_length(10)
    assert Head([(b"inference-header-content-length", b"4")]).header_length(10) == 4


@pytest.mark.parametrize("timeout", [b"0", b"-1", b"nan", b"soon", b"1e9"])
def test_a_timeout_is_a_positive_number(timeout: bytes) -> None:
    assert header_timeout(b"1.5") == 1.5
    with pytest.raises(InvalidRequest, match="positive number of seconds"):
        header_timeout(timeout)


def test_a_body_that_cannot_be_taken_is_refused_by_its_head() -> None:
    with pytest.raises(PayloadTooLarge, match=r"the 10 bytes allowed \(setting max_body_bytes\)"):
        expect_body(Head([(b"content-length", b"11")]), 10)
    with pytest.raises(PayloadTooLarge, match=r"the 10 bytes allowed\.$"):
        plain(Head([]), bytes(11), 10, "")
    with pytest.raises(UnsupportedEncoding):
        expect_body(Head([(b"content-type", b"multipart/form-data")]), 10)
    expect_body(Head([(b"content-type", b"multipart/form-data")]), 10, in_parts=True)
    with pytest.raises(UnsupportedEncoding, match="'br' is not gzip or deflate"):
        plain(Head([(b"content-encoding", b"br")]), b"", 10)


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
def test_the_encoding_that_a_client_likes_best(accept: bytes, encoding: bytes | None) -> None:
    assert accepted(accept) == encoding


async def test_a_body_comes_in_messages() -> None:
    messages = iter([{"body": b"a", "more_body": True}, {"body": b"b"}])

    async def receive() -> dict[str, object]:
        return {"type": "http.request", **next(messages)}

    assert await receive_all(receive, 10) == b"ab"  # type: ignore[arg-type]

    async def disconnect() -> dict[str, object]:
        return {"type": "http.disconnect"}

    with pytest.raises(ClientLeft):
        await receive_all(disconnect, 10)  # type: ignore[arg-type]


def test_an_error_is_a_status_headers_and_a_document() -> None:
    status, headers, body = error_response(Overloaded("full"), "default")
    assert (status, orjson.loads(body)) == (429, {"error": "full"})
    assert (b"content-type", b"application/json") in headers
    status, _, body = error_response(InvalidRequest("wrong"), "mlserver")
    assert (status, orjson.loads(body)["detail"]) == (422, [{"type": "invalid", "msg": "wrong"}])


def test_an_error_of_other_code_has_no_details(caplog: pytest.LogCaptureFixture) -> None:
    assert "secret" not in wrap(ValueError("secret")).message
    assert "secret" in caplog.text

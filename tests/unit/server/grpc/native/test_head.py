"""The head of a call, and the header blocks of responses."""

import pytest

from inferstream.errors import InvalidRequest
from inferstream.server.grpc.native.head import (
    ENDED,
    NOT_GRPC,
    NOT_POST,
    OPENED,
    CallHead,
    ended,
    is_grpc,
    opened,
)
from inferstream.server.grpc.statuses import StatusCode
from inferstream.server.http2.hpack import Decoder
from inferstream.server.http2.request import Request


def head(
    *fields: tuple[bytes, bytes], method: bytes = b"POST", type: bytes = b"application/grpc"
) -> CallHead:
    pseudo = ((b":method", method), (b":scheme", b"http"), (b":path", b"/s/M"))
    return CallHead(Request([*pseudo, (b"content-type", type), *fields]))


def test_a_call_has_a_path_a_timeout_and_metadata() -> None:
    call = head((b"grpc-timeout", b"100m"), (b"x-a", b"b"), (b"grpc-accept-encoding", b"identity, gzip"))
    assert (call.path, call.timeout, call.refusal) == ("/s/M", 0.1, None)
    assert call.metadata.pairs == (("x-a", "b"),)
    assert call.accepts(b"gzip")
    assert not call.accepts(b"deflate")


def test_what_is_malformed_waits_until_somebody_can_tell_the_client() -> None:
    call = head((b"grpc-timeout", b"soon"), (b"x-bin", b"*"))
    assert call.timeout == -1.0
    with pytest.raises(InvalidRequest, match='the metadata "x-bin" is not base64'):
        _ = call.metadata


def test_a_request_that_is_no_call_is_refused() -> None:
    assert head(method=b"GET").refusal == NOT_POST
    assert head(type=b"application/json").refusal == NOT_GRPC
    assert head(type=b"application/grpc+proto; a=b").refusal is None
    assert not is_grpc(b"application/grpc-web")


def test_blocks_without_metadata_are_made_once() -> None:
    assert opened((), None) is OPENED
    assert ended(StatusCode.OK, "", ()) is ENDED


def test_metadata_and_a_status_are_in_the_blocks() -> None:
    decode = Decoder(max_list_size=4096).decode
    assert (b"x-a", b"b") in decode(opened((("x-a", "b"),), b"gzip"))
    assert [*decode(ended(StatusCode.NOT_FOUND, "no ä", (("retry-after", "1"),)))] == [
        (b"grpc-status", b"5"),
        (b"grpc-message", b"no %C3%A4"),
        (b"retry-after", b"1"),
    ]

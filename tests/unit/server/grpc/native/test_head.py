"""The head of a call, and the header blocks of responses."""

import pytest

from inferstream.errors import InvalidRequest
from inferstream.server.grpc.native.head import (
    ENDED,
    NOT_GRPC,
    NOT_POST,
    OPENED,
    CallHead,
    encode_head,
    encode_trailers,
    is_grpc,
)
from inferstream.server.grpc.statuses import StatusCode
from inferstream.server.http2.hpack import Decoder
from inferstream.server.http2.request import Request


def head(
    *fields: tuple[bytes, bytes], method: bytes = b"POST", type: bytes = b"application/grpc"
) -> CallHead:
    pseudo = ((b":method", method), (b":scheme", b"http"), (b":path", b"/s/M"))
    return CallHead(Request([*pseudo, (b"content-type", type), *fields]))


def test_call_has_path_timeout_and_metadata() -> None:
    call = head((b"grpc-timeout", b"100m"), (b"x-a", b"b"), (b"grpc-accept-encoding", b"identity, gzip"))
    assert (call.path, call.timeout, call.refusal) == ("/s/M", 0.1, None)
    assert call.metadata.pairs == (("x-a", "b"),)
    assert call.accepts(b"gzip")
    assert not call.accepts(b"deflate")


def test_malformed_head_is_reported_when_a_response_is_possible() -> None:
    call = head((b"grpc-timeout", b"soon"), (b"x-bin", b"*"))
    assert call.timeout == -1.0
    with pytest.raises(InvalidRequest, match='the metadata "x-bin" is not base64'):
        _ = call.metadata


def test_non_grpc_request_is_refused() -> None:
    assert head(method=b"GET").refusal == NOT_POST
    assert head(type=b"application/json").refusal == NOT_GRPC
    assert head(type=b"application/grpc+proto; a=b").refusal is None
    assert not is_grpc(b"application/grpc-web")


def test_blocks_without_metadata_are_cached() -> None:
    assert encode_head((), None) is OPENED
    assert encode_trailers(StatusCode.OK, "", ()) is ENDED


def test_metadata_and_status_are_encoded() -> None:
    decode = Decoder(max_list_size=4096).decode
    assert (b"x-a", b"b") in decode(encode_head((("x-a", "b"),), b"gzip"))
    assert [*decode(encode_trailers(StatusCode.NOT_FOUND, "no ä", (("retry-after", "1"),)))] == [
        (b"grpc-status", b"5"),
        (b"grpc-message", b"no %C3%A4"),
        (b"retry-after", b"1"),
    ]

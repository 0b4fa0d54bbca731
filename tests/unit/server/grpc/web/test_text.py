"""The text form of gRPC-Web: base64 in chunks."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferstream.errors import InvalidRequest
from inferstream.server.grpc.web.text import TextDecoder, encode_chunk


@given(
    chunks=st.lists(st.binary(min_size=1, max_size=12), max_size=8),
    cuts=st.lists(st.integers(1, 9), max_size=30),
)
def test_padded_base64_is_read_from_arbitrary_chunks(chunks: list[bytes], cuts: list[int]) -> None:
    text = b"".join(map(encode_chunk, chunks))
    decoder, found, start = TextDecoder(), b"", 0
    for cut in [*cuts, len(text)]:
        found += decoder.decode(text[start : start + cut])
        start += cut
    decoder.end()
    assert found == b"".join(chunks)


@given(st.binary(max_size=60))
def test_chunk_is_encoded_as_base64(data: bytes) -> None:
    assert base64.b64decode(encode_chunk(data), validate=True) == data


@pytest.mark.parametrize(
    "text", [b"Y===", b"Y!==", b"=YQ=", b"YQ==\nYQ=", b"\xff\xff\xff\xff", b"YQ=Y", b"===="]
)
def test_invalid_base64_body_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidRequest, match="grpc-web-text is not base64"):
        TextDecoder().decode(text)


@pytest.mark.parametrize("text", [b"Y", b"YQ", b"YWJj\n", b"YQ="])
def test_truncated_body_is_refused(text: bytes) -> None:
    decoder = TextDecoder()
    decoder.decode(text)
    with pytest.raises(InvalidRequest, match="not base64"):
        decoder.end()

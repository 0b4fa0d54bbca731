"""Messages of RPCs out of bytes in any pieces, and their compression."""

import gzip
import tracemalloc
import zlib
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferstream.errors import InvalidRequest, PayloadTooLarge, Unsupported
from inferstream.server.grpc.messages import (
    AHEAD,
    WORTH_A_VIEW,
    WORTH_ROOM,
    MessageBuffer,
    accepts,
    add_prefix,
    check_encoding,
    compress,
    decompress,
)


def taken(buffer: MessageBuffer) -> list[tuple[bool, bytes]]:
    found = []
    while (message := buffer.take()) is not None:
        found.append((buffer.compressed, bytes(message)))
    return found


@given(
    messages=st.lists(st.tuples(st.booleans(), st.binary(max_size=40)), max_size=8),
    cuts=st.lists(st.integers(1, 60), max_size=30),
    at_once=st.booleans(),
)
def test_messages_are_read_from_arbitrary_chunks(messages, cuts: list[int], at_once: bool) -> None:
    stream = b"".join(bytes([flag]) + len(data).to_bytes(4, "big") + data for flag, data in messages)
    buffer, found, start = MessageBuffer(100, "most"), [], 0
    for cut in [*cuts, len(stream)]:
        buffer.append(stream[start : start + cut])
        start += cut
        if not at_once:
            found += taken(buffer)
    assert found + taken(buffer) == messages
    assert buffer.size == 0
    assert buffer.between_messages


@given(
    messages=st.lists(st.tuples(st.booleans(), st.binary(max_size=60)), max_size=8),
    cuts=st.lists(st.integers(1, 20), max_size=60),
    views=st.booleans(),
)
def test_messages_are_assembled_as_they_arrive(messages, cuts: list[int], views: bool) -> None:
    stream = b"".join(bytes([flag]) + len(data).to_bytes(4, "big") + data for flag, data in messages)
    buffer, found, start = MessageBuffer(100, "most"), [], 0
    with (
        patch("inferstream.server.grpc.messages.WORTH_ROOM", 8),
        patch("inferstream.server.grpc.messages.AHEAD", 4),
    ):
        for cut in [*cuts, len(stream)]:
            piece = stream[start : start + cut]
            buffer.append(memoryview(piece) if views else piece)
            start += cut
            found += taken(buffer)
            assert buffer.between_messages == (
                sum(5 + len(data) for _, data in found) == min(start, len(stream))
            )
    assert found == messages
    assert buffer.size == 0


def test_large_message_and_its_chunks_are_not_held_together() -> None:
    size = 8 * WORTH_ROOM
    buffer = MessageBuffer(size, "most")
    buffer.append(add_prefix(bytes(size))[: 5 + size // AHEAD - 1])
    assert buffer.take() is None
    assert buffer._whole is None, "too little has arrived"
    tracemalloc.start()
    for _ in range(size // 65_536 + 1):
        buffer.append(b"x" * 65_536)
        buffer.take()
        if buffer._length < 0:
            break
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1.3 * size


@pytest.mark.parametrize("pieces", [1, 3])
def test_large_message_is_assembled(pieces: int) -> None:
    content = bytes(range(256)) * (WORTH_A_VIEW // 128)
    stream = add_prefix(content) * 2
    buffer = MessageBuffer(len(content), "most")
    size = -(-len(stream) // pieces)
    for start in range(0, len(stream), size):
        buffer.append(stream[start : start + size])
    assert taken(buffer) == [(False, content)] * 2


@given(data=st.binary(min_size=1, max_size=30))
def test_incomplete_message_is_detected(data: bytes) -> None:
    buffer = MessageBuffer(100, "most")
    assert buffer.between_messages
    for byte in add_prefix(data)[:-1]:
        buffer.append(bytes([byte]))
        assert buffer.take() is None
        assert not buffer.between_messages


def test_oversized_message_is_refused_at_its_prefix() -> None:
    buffer = MessageBuffer(8, "most")
    buffer.append(b"\0\0\0\0\x09")
    with pytest.raises(PayloadTooLarge, match=r"larger than the 8 bytes allowed \(setting most\)"):
        buffer.take()


def test_undefined_flags_are_refused() -> None:
    buffer = MessageBuffer(8, "most")
    buffer.append(b"\x80\0\0\0\0")
    with pytest.raises(InvalidRequest, match="flags of a message are 128"):
        buffer.take()


@given(data=st.binary(max_size=300), encoding=st.sampled_from([b"gzip", b"deflate"]))
def test_compressed_message_is_read(data: bytes, encoding: bytes) -> None:
    buffer = MessageBuffer(1000, "most")
    buffer.append(compress(data, encoding))
    message = buffer.take()
    assert message is not None
    assert buffer.compressed
    assert decompress(message, encoding, len(data), "most") == data
    plain = gzip.decompress(message) if encoding == b"gzip" else zlib.decompress(message)
    assert plain == data


@pytest.mark.parametrize("encoding", [b"gzip", b"deflate"])
def test_small_message_that_inflates_too_much_is_refused(encoding: bytes) -> None:
    bomb = compress(bytes(50_000_000), encoding)[5:]
    with pytest.raises(
        PayloadTooLarge,
        match=r"message is larger than the 1000 bytes allowed once decompressed \(setting most\)",
    ):
        decompress(bomb, encoding, 1000, "most")


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"rubbish", "not valid gzip"),
        (gzip.compress(b"abc")[:-3], "truncated gzip"),
        (gzip.compress(b"abc") + b"de", "2 bytes follow the gzip message"),
    ],
    ids=["rubbish", "truncated", "followed"],
)
def test_invalid_compressed_message_is_refused(message: bytes, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason):
        decompress(message, b"gzip", 100, "most")


def test_compressed_message_needs_an_encoding() -> None:
    with pytest.raises(InvalidRequest, match="no grpc-encoding"):
        decompress(b"x", b"identity", 100, "most")


def test_unknown_encoding_is_refused_with_the_supported_ones() -> None:
    with pytest.raises(Unsupported, match='"br" is not one of identity, deflate, gzip'):
        check_encoding(b"br")
    for known in (b"identity", b"gzip", b"deflate"):
        check_encoding(known)


def test_accepted_client_encodings() -> None:
    assert accepts(b"identity, deflate,gzip", b"gzip")
    assert not accepts(b"identity,xgzip", b"gzip")
    assert not accepts(b"", b"gzip")


def test_single_bytes_are_joined() -> None:
    buffer = MessageBuffer(100_000, "most")
    sent = add_prefix(b"x" * 5000)
    for at in range(len(sent)):
        buffer.append(sent[at : at + 1])
    assert len(buffer._pieces) < 10
    assert buffer.take() == b"x" * 5000


def test_messages_are_read_from_memoryviews() -> None:
    """A small one is bytes, which code of models may expect; a large one may be a view."""
    sent = add_prefix(b"a") + add_prefix(b"b" * WORTH_A_VIEW) + add_prefix(b"c")
    buffer = MessageBuffer(WORTH_A_VIEW, "most")
    buffer.append(memoryview(sent))
    assert taken(buffer) == [(False, b"a"), (False, b"b" * WORTH_A_VIEW), (False, b"c")]
    buffer.append(memoryview(sent))
    assert type(buffer.take()) is bytes

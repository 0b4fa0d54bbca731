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
    check_encoding,
    compressed,
    decompressed,
    prefixed,
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
def test_messages_come_out_of_bytes_in_any_pieces(messages, cuts: list[int], at_once: bool) -> None:
    stream = b"".join(bytes([flag]) + len(data).to_bytes(4, "big") + data for flag, data in messages)
    buffer, found, start = MessageBuffer(100, "most"), [], 0
    for cut in [*cuts, len(stream)]:
        buffer.feed(stream[start : start + cut])
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
def test_messages_that_are_put_together_as_they_arrive(messages, cuts: list[int], views: bool) -> None:
    stream = b"".join(bytes([flag]) + len(data).to_bytes(4, "big") + data for flag, data in messages)
    buffer, found, start = MessageBuffer(100, "most"), [], 0
    with (
        patch("inferstream.server.grpc.messages.WORTH_ROOM", 8),
        patch("inferstream.server.grpc.messages.AHEAD", 4),
    ):
        for cut in [*cuts, len(stream)]:
            piece = stream[start : start + cut]
            buffer.feed(memoryview(piece) if views else piece)
            start += cut
            found += taken(buffer)
            assert buffer.between_messages == (
                sum(5 + len(data) for _, data in found) == min(start, len(stream))
            )
    assert found == messages
    assert buffer.size == 0


def test_a_large_message_and_its_pieces_are_not_kept_at_once() -> None:
    size = 8 * WORTH_ROOM
    buffer = MessageBuffer(size, "most")
    buffer.feed(prefixed(bytes(size))[: 5 + size // AHEAD - 1])
    assert buffer.take() is None
    assert buffer._whole is None, "too little has arrived"
    tracemalloc.start()
    for _ in range(size // 65_536 + 1):
        buffer.feed(b"x" * 65_536)
        buffer.take()
        if buffer._length < 0:
            break
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1.3 * size


@pytest.mark.parametrize("pieces", [1, 3])
def test_a_large_message_is_whole(pieces: int) -> None:
    content = bytes(range(256)) * (WORTH_A_VIEW // 128)
    stream = prefixed(content) * 2
    buffer = MessageBuffer(len(content), "most")
    size = -(-len(stream) // pieces)
    for start in range(0, len(stream), size):
        buffer.feed(stream[start : start + size])
    assert taken(buffer) == [(False, content)] * 2


@given(data=st.binary(min_size=1, max_size=30))
def test_an_incomplete_message_is_known(data: bytes) -> None:
    buffer = MessageBuffer(100, "most")
    assert buffer.between_messages
    for byte in prefixed(data)[:-1]:
        buffer.feed(bytes([byte]))
        assert buffer.take() is None
        assert not buffer.between_messages


def test_a_message_above_the_limit_is_refused_at_its_prefix() -> None:
    buffer = MessageBuffer(8, "most")
    buffer.feed(b"\0\0\0\0\x09")
    with pytest.raises(PayloadTooLarge, match=r"larger than the 8 bytes allowed \(setting most\)"):
        buffer.take()


def test_flags_that_nothing_defines_are_refused() -> None:
    buffer = MessageBuffer(8, "most")
    buffer.feed(b"\x80\0\0\0\0")
    with pytest.raises(InvalidRequest, match="flags of a message are 128"):
        buffer.take()


@given(data=st.binary(max_size=300), encoding=st.sampled_from([b"gzip", b"deflate"]))
def test_a_compressed_message_is_read_again(data: bytes, encoding: bytes) -> None:
    buffer = MessageBuffer(1000, "most")
    buffer.feed(compressed(data, encoding))
    message = buffer.take()
    assert message is not None
    assert buffer.compressed
    assert decompressed(message, encoding, len(data), "most") == data
    plain = gzip.decompress(message) if encoding == b"gzip" else zlib.decompress(message)
    assert plain == data


@pytest.mark.parametrize("encoding", [b"gzip", b"deflate"])
def test_a_small_message_that_becomes_too_large_is_refused(encoding: bytes) -> None:
    bomb = compressed(bytes(50_000_000), encoding)[5:]
    with pytest.raises(
        PayloadTooLarge,
        match=r"message is larger than the 1000 bytes allowed once decompressed \(setting most\)",
    ):
        decompressed(bomb, encoding, 1000, "most")


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"rubbish", "not valid gzip"),
        (gzip.compress(b"abc")[:-3], "truncated gzip"),
        (gzip.compress(b"abc") + b"de", "2 bytes follow the gzip message"),
    ],
    ids=["rubbish", "truncated", "followed"],
)
def test_a_message_that_is_not_compressed_as_it_says(message: bytes, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason):
        decompressed(message, b"gzip", 100, "most")


def test_a_compressed_message_needs_an_encoding() -> None:
    with pytest.raises(InvalidRequest, match="no grpc-encoding"):
        decompressed(b"x", b"identity", 100, "most")


def test_an_unknown_encoding_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(Unsupported, match='"br" is not one of identity, deflate, gzip'):
        check_encoding(b"br")
    for known in (b"identity", b"gzip", b"deflate"):
        check_encoding(known)


def test_which_encodings_a_client_accepts() -> None:
    assert accepts(b"identity, deflate,gzip", b"gzip")
    assert not accepts(b"identity,xgzip", b"gzip")
    assert not accepts(b"", b"gzip")


def test_bytes_that_arrive_one_by_one_are_kept_together() -> None:
    buffer = MessageBuffer(100_000, "most")
    sent = prefixed(b"x" * 5000)
    for at in range(len(sent)):
        buffer.feed(sent[at : at + 1])
    assert len(buffer._pieces) < 10
    assert buffer.take() == b"x" * 5000


def test_messages_out_of_views() -> None:
    """A small one is bytes, which code of models may expect; a large one may be a view."""
    sent = prefixed(b"a") + prefixed(b"b" * WORTH_A_VIEW) + prefixed(b"c")
    buffer = MessageBuffer(WORTH_A_VIEW, "most")
    buffer.feed(memoryview(sent))
    assert taken(buffer) == [(False, b"a"), (False, b"b" * WORTH_A_VIEW), (False, b"c")]
    buffer.feed(memoryview(sent))
    assert type(buffer.take()) is bytes

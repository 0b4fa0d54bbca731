"""Frames as bytes."""

from inferstream.server.http2 import frames
from inferstream.server.http2.errors import ErrorCode


def test_frame_header_has_length_type_flags_and_stream() -> None:
    assert (
        frames.head(0x01_02_03, frames.DATA, frames.END_STREAM, 5) == b"\x01\x02\x03\x00\x01\x00\x00\x00\x05"
    )
    assert frames.read_head(frames.head(0x01_02_03, frames.DATA, 1, 5), 0) == (0x0102, 3, 0, 1, 5)


def test_long_header_block_uses_continuation_frames() -> None:
    written = frames.headers(1, b"abcde", end=True, largest=2)
    assert written == (
        frames.frame(frames.HEADERS, frames.END_STREAM, 1, b"ab")
        + frames.frame(frames.CONTINUATION, 0, 1, b"cd")
        + frames.frame(frames.CONTINUATION, frames.END_HEADERS, 1, b"e")
    )


def test_empty_trailers_are_sent_as_end_stream() -> None:
    assert frames.headers(3, b"", end=True) == frames.head(0, frames.DATA, frames.END_STREAM, 3)


def test_small_frames_are_encoded() -> None:
    assert frames.window_update(1, 7)[9:] == b"\x00\x00\x00\x07"
    assert frames.rst_stream(1, ErrorCode.CANCEL)[9:] == b"\x00\x00\x00\x08"
    assert frames.ping(b"12345678", ack=True)[3:5] == bytes([frames.PING, frames.ACK])
    assert frames.goaway(3, ErrorCode.NO_ERROR, "bye")[9:] == b"\x00\x00\x00\x03\x00\x00\x00\x00bye"

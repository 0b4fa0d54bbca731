"""Frames out of bytes in any pieces."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferstream.server.http2 import frames, reader
from inferstream.server.http2.errors import ConnectionFault
from inferstream.server.http2.limits import Http2Limits
from inferstream.server.http2.reader import MAX_CONTINUATIONS, FrameReader
from inferstream.server.http2.settings import settings_frame

SETTINGS = settings_frame({})
BEGIN = frames.PREFACE + SETTINGS


class Read(FrameReader):
    """Keeps what is read, the pieces of a body together."""

    def __init__(self, **limits: Any) -> None:
        super().__init__(Http2Limits(**limits))
        self.told: list[tuple[Any, ...]] = []

    def on_data_frame(self, id: int, length: int) -> None:
        self.told.append(("data", id, length, b"", False))

    def on_data(self, data: bytes | memoryview, end: bool) -> None:
        name, id, length, body, _ = self.told[-1]
        self.told[-1] = (name, id, length, body + bytes(data), end)

    def on_headers(self, id: int, block: bytes, end: bool) -> None:
        self.told.append(("headers", id, block, end))

    def on_frame(self, kind: int, flags: int, id: int, payload: bytes) -> None:
        self.told.append((kind, flags, id, payload))


def read(*data: bytes, **limits: Any) -> list[tuple[Any, ...]]:
    """What follows the first SETTINGS."""
    made = Read(**limits)
    assert made.read(BEGIN)
    for piece in data:
        assert made.read(piece)
    return made.told[1:]


PADDED_DATA = frames.frame(frames.DATA, frames.PADDED | frames.END_STREAM, 1, b"\x03body\0\0\0")
PADDED_HEADERS = frames.frame(
    frames.HEADERS,
    frames.PADDED | frames.WITH_PRIORITY | frames.END_HEADERS,
    3,
    b"\x02\0\0\0\x01\x10block\0\0",
)
IN_PARTS = (
    frames.frame(frames.HEADERS, frames.END_STREAM, 5, b"a")
    + frames.frame(frames.CONTINUATION, 0, 5, b"")
    + frames.frame(frames.CONTINUATION, frames.END_HEADERS, 5, b"b")
)
STREAM = (
    PADDED_DATA
    + PADDED_HEADERS
    + IN_PARTS
    + frames.frame(frames.DATA, 0, 7, b"")
    + frames.frame(0x77, 0, 0, b"?")
)
EXPECTED = [
    ("data", 1, 8, b"body", True),
    ("headers", 3, b"block", False),
    ("headers", 5, b"ab", True),
    ("data", 7, 0, b"", False),
    (0x77, 0, 0, b"?"),
]


@given(st.lists(st.integers(1, 30), max_size=30))
def test_frames_are_read_from_arbitrary_chunks(cuts: list[int]) -> None:
    whole, pieces = BEGIN + STREAM, []
    for cut in cuts:
        pieces.append(whole[:cut])
        whole = whole[cut:]
    made = Read()
    assert all(made.read(piece) for piece in [*pieces, whole] if piece)
    assert made.told[1:] == EXPECTED
    assert not made.waits_for_more


def test_invalid_preface_is_refused_at_its_first_wrong_byte() -> None:
    made = Read()
    assert made.read(frames.PREFACE[:5])
    assert not made.read(b"GET / HTTP/1.1")


def test_large_body_is_not_copied() -> None:
    views: list[type] = []

    class Views(Read):
        def on_data(self, data: bytes | memoryview, end: bool) -> None:
            views.append(type(data))

    made = Views()
    made.read(BEGIN)
    made.read(frames.frame(frames.DATA, 0, 1, bytes(reader.WORTH_A_VIEW)))
    made.read(frames.frame(frames.DATA, 0, 1, b"small"))
    assert views == [memoryview, bytes]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (frames.frame(frames.DATA, frames.PADDED, 1, b"\x04abc"), "the padding is longer than its frame"),
        (frames.frame(frames.HEADERS, frames.PADDED, 1, b"\x04abc"), "the padding is longer than its frame"),
        (frames.frame(frames.HEADERS, frames.WITH_PRIORITY, 3, b"\0\0\0\x03\x10"), "a stream depends on itself"),
        (frames.frame(frames.CONTINUATION, 0, 1, b""), "CONTINUATION continues nothing"),
        (frames.frame(frames.HEADERS, 0, 1, b"a") + SETTINGS, "another frame interrupts a header block"),
        (frames.frame(frames.HEADERS, 0, 1, b"a") + frames.frame(frames.DATA, 0, 1, b""), "DATA comes before its time"),
        (frames.frame(frames.HEADERS, 0, 1, b"a") + frames.frame(frames.CONTINUATION, 0, 1, b"") * MAX_CONTINUATIONS, "a header block is too large"),
        (frames.frame(frames.DATA, 0, 1, bytes(101)), "a frame is larger than MAX_FRAME_SIZE"),
        (frames.frame(0x77, 0, 1, bytes(101)), "a frame is larger than MAX_FRAME_SIZE"),
    ],
)  # fmt: skip
def test_client_receives_the_connection_error(data: bytes, reason: str) -> None:
    with pytest.raises(ConnectionFault) as fault:
        read(data, max_frame=100)
    assert fault.value.reason == reason


def test_first_frame_must_be_settings() -> None:
    with pytest.raises(ConnectionFault, match="the first frame is not SETTINGS"):
        Read().read(frames.PREFACE + frames.frame(0x77, 0, 0, b""))


def test_partial_frame_counts_as_progress_at_its_end() -> None:
    made = Read()
    made.read(BEGIN)
    assert made.advanced
    made.read(IN_PARTS[:4])
    assert (made.advanced, made.waits_for_more) == (False, True)
    made.read(IN_PARTS[4:])
    assert (made.advanced, made.waits_for_more) == (True, False)

"""The window of a connection for bodies that nobody has read."""

from inferstream.server.http2 import frames
from inferstream.server.http2.hpack import encode
from inferstream.server.http2.limits import Http2Limits
from inferstream.server.http2.reader import WORTH_A_VIEW

from .conversations import Served, read_frames

BLOCK = encode([(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/late"), (b":authority", b"a")])
LIMITS = Http2Limits(stream_window=100_000, connection_window=400_000, max_held=800_000)


def opened(limits: Http2Limits = LIMITS) -> Served:
    served = Served(limits)
    served.feed(frames.PREFACE + frames.frame(frames.SETTINGS, 0, 0, b""))
    return served


def offered(written: bytes) -> int:
    """Bytes that the frames give back to the connection."""
    return sum(
        frames.read_long(payload)
        for kind, _, stream, payload in read_frames(written)
        if kind == frames.WINDOW_UPDATE and not stream
    )


def unread(served: Served, stream: int) -> bytes:
    """What the connection writes when the body of a new stream fills its window, and nobody reads it."""
    return served.feed(
        frames.headers(stream, BLOCK, False) + frames.frame(frames.DATA, 0, stream, b"x" * 100_000)
    )


async def test_unread_streams_do_not_block_other_streams() -> None:
    served = opened()
    window = 400_000
    for stream in range(1, 13, 2):
        window += offered(unread(served, stream)) - 100_000
        assert window >= 100_000


async def test_unread_data_of_all_streams_is_bounded() -> None:
    served = opened()
    window, kept = 400_000, 0
    for stream in range(1, 99, 2):
        if window < 100_000:
            break
        window += offered(unread(served, stream)) - 100_000
        kept += 100_000
    assert kept + window <= LIMITS.max_held
    echo = served.echoes[1]
    echo.stream.return_credit(100_000)
    served.feed(b"")
    for other in (3, 5, 7):
        served.echoes[other].stream.return_credit(100_000)
    window += offered(served.transport.take())
    assert window >= 100_000, "the window stays closed after the bytes were read"


class Kinds:
    """Receives a body, and keeps the pieces."""

    def __init__(self) -> None:
        self.pieces: list[bytes | memoryview] = []

    def receive_data(self, data: bytes | memoryview, end: bool) -> None:
        self.pieces.append(data)


async def test_memoryview_keeps_little_unused_memory() -> None:
    served = opened(Http2Limits())
    served.feed(frames.headers(1, BLOCK, False) + frames.headers(3, BLOCK, False))
    kept = [Kinds(), Kinds()]
    for stream, receiver in zip((1, 3), kept, strict=True):
        served.connection.streams[stream].receiver = receiver
    much = WORTH_A_VIEW
    served.feed(frames.frame(frames.DATA, 0, 1, b"x" * much))
    served.feed(frames.frame(frames.DATA, 0, 1, b"x" * (much - 1)))
    served.feed(
        frames.frame(frames.DATA, 0, 1, b"x" * much) + frames.frame(frames.DATA, 0, 3, b"y" * (much + 100))
    )
    assert [type(piece) for piece in kept[0].pieces] == [memoryview, bytes, bytes]
    assert [type(piece) for piece in kept[1].pieces] == [memoryview]

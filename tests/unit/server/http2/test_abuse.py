"""What hostile clients could make dear or endless, found by the floods of `tests/floods.py`."""

import asyncio

import pytest

from inferstream.server.http2 import frames, settings
from inferstream.server.http2.connection import Http2Connection
from inferstream.server.http2.hpack import encode
from inferstream.server.http2.limits import Http2Limits
from inferstream.server.http2.stream import Stream

from .conversations import Served, read_frames
from .test_connection import START

HEAD = encode([(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/whole"), (b":authority", b"x")])


def call(id: int, body: bytes = b"body") -> bytes:
    return frames.headers(id, HEAD, False) + frames.frame(frames.DATA, frames.END_STREAM, id, body)


def reset(id: int) -> bytes:
    return frames.frame(frames.RST_STREAM, 0, id, b"\0\0\0\x08")


def began(**setting: int) -> Served:
    values = {getattr(settings, name): value for name, value in setting.items()}
    served = Served(silent=not values)
    served.transport.take()
    served.feed(frames.PREFACE + settings.settings_frame(values))
    return served


def reason(written: bytes) -> str | None:
    for kind, _, _, payload in read_frames(written):
        if kind == frames.GOAWAY:
            return payload[8:].decode()
    return None


async def test_request_body_does_not_offset_its_reset() -> None:
    served = began()
    written = b"".join(served.feed(call(id) + reset(id)) for id in range(1, 2001, 2))
    assert reason(written) == "too many requests were reset"
    served.leave()  # no call is forgotten, that of the last reset included


async def test_responses_offset_resets() -> None:
    served = began(MAX_FRAME_SIZE=16_384)
    for id in range(1, 16_000, 8):
        written = served.feed(call(id) + call(id + 2) + call(id + 4) + frames.headers(id + 6, HEAD, False))
        assert reason(written + served.feed(reset(id + 6))) is None


@pytest.mark.parametrize("streams", [50, 400])
async def test_connection_window_is_not_offered_to_streams_waiting_for_their_own(
    streams: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = began(INITIAL_WINDOW_SIZE=0)
    for id in range(1, 2 * streams, 2):
        served.feed(call(id))
    asked = 0
    progress = Stream.take_data

    def counted(self: Stream, most: int, into: list) -> int:
        nonlocal asked
        asked += 1
        return progress(self, most, into)

    monkeypatch.setattr(Stream, "take_data", counted)
    served.feed(frames.window_update(0, 1) * 100)
    assert asked == 0
    written = list(read_frames(served.feed(frames.window_update(5, 100))))
    assert [(kind, stream) for kind, _, stream, _ in written] == [(frames.DATA, 5), (frames.HEADERS, 5)]


async def test_streams_share_the_connection_window() -> None:
    served = began(INITIAL_WINDOW_SIZE=2**31 - 1)
    body = b"b" * 200_000
    for id in (1, 3, 5):
        served.feed(frames.headers(id, HEAD, False))
        for at in range(0, len(body), 16_000):
            end = at + 16_000 >= len(body)
            served.feed(frames.frame(frames.DATA, int(end), id, body[at : at + 16_000]))
    sent: dict[int, int] = {}
    for _ in range(12):
        for kind, _, stream, payload in read_frames(served.feed(frames.window_update(0, 1000))):
            assert kind == frames.DATA
            sent[stream] = sent.get(stream, 0) + len(payload)
    assert sent == {1: 4000, 3: 4000, 5: 4000}


async def test_small_responses_stay_within_the_connection_window() -> None:
    served = began(INITIAL_WINDOW_SIZE=2**31 - 1)
    written = b"".join(served.feed(call(id, b"b" * 10_000)) for id in range(1, 21, 2))
    sent = sum(len(payload) for kind, _, _, payload in read_frames(written) if kind == frames.DATA)
    assert sent == settings.DEFAULT_WINDOW
    written = served.feed(frames.window_update(0, 100_000))
    sent += sum(len(payload) for kind, _, _, payload in read_frames(written) if kind == frames.DATA)
    assert sent == 100_000
    assert not served.connection.streams


async def test_settings_frames_have_their_own_limit() -> None:
    served = began()
    written = b""
    for size in range(200):
        written += served.feed(settings.settings_frame({settings.INITIAL_WINDOW_SIZE: size}))
    assert reason(written) == "too many SETTINGS"


async def test_client_after_goaway_cannot_make_endless_calls() -> None:
    served = began()
    served.feed(frames.headers(1, HEAD, False) + frames.goaway(0, 0, ""))
    written = b"".join(served.feed(frames.headers(id, HEAD, True)) for id in range(3, 6003, 2))
    assert reason(written) == "too many frames without use"


async def test_frame_timeout_restarts_for_each_frame() -> None:
    """A client that sends without a pause may leave the end of every read in the middle of a frame."""
    served = Served()
    now = 100.0
    served.connection.clock = lambda: now
    served.feed(START)
    assert served.connection.partial_since is None
    piece = call(1)[:10]
    served.feed(piece)
    assert served.connection.partial_since == 100
    for id in (1, 3, 5):
        now += 1
        served.feed(call(id)[10:] + call(id + 2)[:10])
        assert served.connection.partial_since == now
    began_at = now
    for at in range(10, 15):
        now += 1
        served.feed(call(7)[at : at + 1])
        assert served.connection.partial_since == began_at


async def test_header_block_timeout_spans_all_its_frames() -> None:
    served = Served()
    now = 100.0
    served.connection.clock = lambda: now
    served.feed(START + call(1)[:-1])
    now = 101
    served.feed(b"y" + frames.frame(frames.HEADERS, 0, 3, HEAD))
    assert served.connection.partial_since == 101
    now = 102
    served.feed(frames.frame(frames.CONTINUATION, 0, 3, b""))
    assert served.connection.partial_since == 101


async def test_expensive_frames_do_not_starve_other_clients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times = iter((0, 0.001, 10, 20))
    monkeypatch.setattr("inferstream.server.http2.connection.monotonic", lambda: next(times))
    served = began()
    for size, paused in ((20_000, False), (1_000, False), (20_000, True)):
        served.feed(frames.frame(0x77, 0, 0, bytes(size)))
        assert served.transport.reading is not paused
        await asyncio.sleep(0)
        assert served.transport.reading


class Sink(asyncio.Protocol):
    def __init__(self) -> None:
        self.data = b""
        self.ended = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self.data += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set_result(exc)


async def test_client_that_keeps_sending_can_read_the_error() -> None:
    """The server's socket has unread bytes then, and closing it would reset the connection."""
    loop = asyncio.get_running_loop()
    lost = loop.create_future()

    def connection() -> Http2Connection:
        return Http2Connection(
            lambda *_: None, lambda _: None, Http2Limits(), lambda _: True, lost.set_result
        )

    server = await loop.create_server(connection, "127.0.0.1", 0)
    transport, sink = await loop.create_connection(Sink, *server.sockets[0].getsockname())
    assert isinstance(transport, asyncio.WriteTransport)
    transport.write(START + frames.frame(frames.RST_STREAM, 0, 1, bytes(4)) + bytes(4_000_000))
    assert await asyncio.wait_for(sink.ended, 10) is None
    assert reason(sink.data) == "RST_STREAM on an idle stream"
    await asyncio.wait_for(lost, 10)
    server.close()

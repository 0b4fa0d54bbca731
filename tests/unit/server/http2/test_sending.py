"""What is written when several streams write, and when a client does not read, resets, or has less room than most."""

import asyncio

import hpack
import pytest

from inferstream.server.http2 import frames, sending, settings
from inferstream.server.http2.errors import ErrorCode
from inferstream.server.http2.hpack import encode
from inferstream.server.http2.limits import Http2Limits
from inferstream.server.http2.stream import Stream

from .conversations import HEAD, TRAILERS, Served, read_frames

BIG = 70_000


def request(path: bytes) -> bytes:
    return encode([(b":method", b"POST"), (b":scheme", b"http"), (b":path", path), (b":authority", b"a")])


@pytest.fixture(autouse=True)
def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the system sets the tests aside, no time passes between two writes of one turn."""
    monkeypatch.setattr(sending, "monotonic", lambda: 0.0)


def opened(limits: Http2Limits | None = None, **values: int) -> Served:
    served = Served(limits)
    chosen = {getattr(settings, name): value for name, value in values.items()}
    served.feed(frames.PREFACE + settings.settings_frame(chosen))
    return served


def with_room(size: int = 1 << 20) -> Served:
    """A connection whose client lets so many bytes come, on each stream and in all; a mebibyte at first."""
    served = opened(INITIAL_WINDOW_SIZE=size)
    served.feed(frames.window_update(0, size))
    return served


def call(stream: int, path: bytes = b"/whole", body: bytes = b"x") -> bytes:
    parts = [body[at : at + 16_384] for at in range(0, len(body), 16_384)]
    written = [frames.headers(stream, request(path), False)]
    written += [frames.frame(frames.DATA, 0, stream, part) for part in parts[:-1]]
    return b"".join(written) + frames.frame(frames.DATA, frames.END_STREAM, stream, parts[-1])


def kinds(written: bytes) -> list[tuple[int, int]]:
    return [(kind, stream) for kind, _, stream, _ in read_frames(written)]


async def test_refusals_to_a_nonreading_client_count_as_requests() -> None:
    served = opened(Http2Limits(max_streams=100))
    served.connection.pause_writing()
    for stream in range(1, 2001, 2):
        served.feed(frames.headers(stream, request(b"/refuse"), True))
        if served.connection.ended:
            break
    assert len(served.connection.streams) <= 100
    assert served.connection.ending.keys() == {*served.connection.streams.values()}


async def test_ends_waiting_for_the_transport_are_sent_when_the_client_reads() -> None:
    served = opened()
    served.connection.pause_writing()
    served.feed(frames.headers(1, request(b"/refuse"), True) + frames.headers(3, request(b"/refuse"), True))
    assert not served.transport.take()
    served.connection.resume_writing()
    assert kinds(served.transport.take()) == [(frames.HEADERS, 1), (frames.HEADERS, 3)]
    assert not served.connection.streams
    assert not served.connection.ending


async def test_last_stream_of_a_connection_flushes_pending_frames(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sending, "monotonic", lambda: 1.0)
    served = Served(silent=True)
    served.feed(frames.PREFACE + settings.settings_frame({}))
    served.feed(frames.headers(1, request(b"/"), True) + frames.headers(3, request(b"/"), True))
    first, last = served.echoes[1].stream, served.echoes[3].stream
    for stream in (first, last):
        stream.open(HEAD)
        stream.send(b"", b"x")
    first.finish(TRAILERS)
    assert not served.transport.take()
    last.send(b"", b"y")
    written = [(frames.HEADERS, 1), (frames.DATA, 1), (frames.HEADERS, 3), (frames.DATA, 3)]
    assert kinds(served.transport.take()) == [*written, (frames.HEADERS, 1), (frames.DATA, 3)]


async def test_message_of_any_size_waits_for_the_transport() -> None:
    served = opened()
    served.connection.pause_writing()
    served.feed(call(1, b"/stream", b"small"))
    assert not served.transport.take()
    served.connection.resume_writing()
    assert kinds(served.transport.take()) == [(frames.HEADERS, 1), (frames.DATA, 1), (frames.HEADERS, 1)]


async def test_message_is_split_into_frames_the_client_accepts() -> None:
    served = Served(silent=True)
    served.feed(frames.PREFACE + settings.settings_frame({}) + frames.headers(1, request(b"/"), False))
    stream = served.echoes[1].stream
    stream.open(HEAD)
    assert stream.send(b"12345", bytes(frames.SMALLEST_MAX_FRAME))
    sizes = [
        len(payload) for kind, _, _, payload in read_frames(served.transport.take()) if kind == frames.DATA
    ]
    assert sizes == [frames.SMALLEST_MAX_FRAME, 5]


async def test_last_response_of_a_draining_connection_is_complete() -> None:
    served = opened()
    written = served.feed(call(1, body=b"x" * BIG))
    served.connection.stop_accepting()
    written += served.feed(frames.window_update(0, BIG) + frames.window_update(1, BIG))
    found = list(read_frames(written))
    assert sum(len(payload) for kind, _, _, payload in found if kind == frames.DATA) == BIG
    assert [kind for kind, _, stream, _ in found if stream == 1][-1] == frames.HEADERS
    assert served.transport.closed


async def test_reset_follows_the_end_of_a_delayed_response() -> None:
    served = opened()
    served.feed(frames.headers(1, request(b"/stream"), False))
    stream = served.echoes[1].stream
    stream.open(HEAD)
    stream.send(b"", b"x" * BIG)
    stream.finish(TRAILERS)
    served.transport.take()
    found = kinds(served.feed(frames.window_update(0, BIG) + frames.window_update(1, BIG)))
    assert [kind for kind, of in found if of == 1][-2:] == [frames.HEADERS, frames.RST_STREAM]


async def test_client_with_small_table_gets_one_table_size_update() -> None:
    served = opened(HEADER_TABLE_SIZE=0)
    decoder = hpack.Decoder()
    decoder.max_allowed_table_size = 0
    blocks = [
        payload
        for kind, _, _, payload in read_frames(served.feed(call(1) + call(3)))
        if kind == frames.HEADERS
    ]
    assert len(blocks) == 4
    for block in blocks:
        decoder.decode(block)
    assert [block[:1] == b"\x20" for block in blocks] == [True, False, False, False]


async def test_reset_streams_leave_the_window_queue() -> None:
    served = opened()
    served.connection.send_window = 0
    for stream in range(1, 401, 2):
        served.feed(call(stream))
        served.feed(frames.frame(frames.RST_STREAM, 0, stream, b"\0\0\0\x08"))
    assert not served.connection.streams
    assert not served.connection.waiting


async def test_later_goaway_does_not_name_a_later_stream() -> None:
    served = opened()
    served.feed(frames.headers(1, request(b"/late"), False))
    served.connection.stop_accepting()
    served.feed(frames.headers(3, request(b"/late"), False))
    served.connection.end(ErrorCode.NO_ERROR, "")
    goaways = [
        frames.read_long(payload[:4])
        for kind, _, _, payload in read_frames(served.transport.take())
        if kind == frames.GOAWAY
    ]
    assert goaways == [1] or goaways == [1, 1]


async def test_frames_on_a_refused_stream_are_counted() -> None:
    served = opened()
    served.feed(frames.headers(1, encode([(b":method", b"POST")]), False))
    empty = frames.frame(frames.DATA, 0, 1, b"")
    for _ in range(50):
        served.feed(empty * 100)
    assert served.connection.ended


async def test_unstartable_request_fails_separately() -> None:
    served = opened()

    def fail(*_: object) -> None:
        raise RuntimeError

    accept, served.connection._accept = served.connection._accept, fail
    found = kinds(served.feed(call(1)))
    assert (frames.RST_STREAM, 1) in found
    served.connection._accept = accept
    assert (frames.HEADERS, 3) in kinds(served.feed(call(3)))


def streams_of(served: Served, number: int) -> list[Stream]:
    """So many streams of one connection, of which none has responded."""
    served.transport.take()
    for id in range(1, 2 * number, 2):
        served.feed(frames.headers(id, request(b"/late"), False))
    return [served.echoes[id].stream for id in range(1, 2 * number, 2)]


async def test_frames_of_several_streams_are_written_together() -> None:
    served = opened()
    one, two = streams_of(served, 2)
    one.open(HEAD)
    one.send(b"", b"x")
    two.open(HEAD)
    two.send(b"", b"x")
    one.send(b"", b"x")
    assert not served.transport.written
    await asyncio.sleep(0)
    of = [stream for _, stream in kinds(served.transport.take())]
    assert of == [1, 1, 3, 3, 1]


async def test_single_stream_writes_immediately() -> None:
    served = opened()
    (one,) = streams_of(served, 1)
    one.open(HEAD)
    one.send(b"", b"x")
    assert kinds(served.transport.take()) == [(frames.HEADERS, 1), (frames.DATA, 1)]


async def test_frames_keep_order_around_resets_and_acknowledgements() -> None:
    served = opened()
    one, two = streams_of(served, 2)
    one.open(HEAD)
    one.send(b"", b"x")
    one.reset(ErrorCode.CANCEL)
    assert kinds(served.transport.take()) == [(frames.HEADERS, 1), (frames.DATA, 1), (frames.RST_STREAM, 1)]
    two.open(HEAD)
    two.send(b"", b"x")
    written = served.feed(settings.settings_frame({settings.MAX_FRAME_SIZE: 16_384}))
    assert [kind for kind, _ in kinds(written)] == [frames.HEADERS, frames.DATA, frames.SETTINGS]
    await asyncio.sleep(0)
    assert not served.transport.written


async def test_large_data_does_not_wait_for_the_loop_iteration() -> None:
    served = with_room()
    one, _ = streams_of(served, 2)
    one.open(HEAD)
    one.send(b"", b"x" * 16_000)
    assert not served.transport.written
    one.send(b"", b"x" * 16_000)
    one.send(b"", b"x" * 16_000)
    assert len(served.transport.take()) > sending.TOGETHER
    await asyncio.sleep(0)
    assert not served.transport.written


async def test_closing_connection_flushes_pending_frames() -> None:
    served = opened()
    one, _ = streams_of(served, 2)
    one.open(HEAD)
    one.send(b"", b"x")
    served.connection.end(ErrorCode.NO_ERROR, "")
    assert [kind for kind, _ in kinds(served.transport.take())] == [
        frames.HEADERS,
        frames.DATA,
        frames.GOAWAY,
    ]
    await asyncio.sleep(0)


async def test_nothing_is_written_after_disconnect() -> None:
    served = opened()
    one, _ = streams_of(served, 2)
    one.open(HEAD)
    one.send(b"", b"x")
    served.transport.closed = True
    served.connection.connection_lost(None)
    await asyncio.sleep(0)


async def test_frames_do_not_wait_for_a_long_loop_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1.0]
    monkeypatch.setattr(sending, "monotonic", lambda: clock[0])
    served = opened()
    one, two = streams_of(served, 2)

    def send(stream: Stream, seconds: float) -> list[int]:
        """Which streams' frames leave at once when one sends so many seconds later."""
        clock[0] += seconds
        stream.send(b"", b"x")
        return [id for kind, id in kinds(served.transport.take()) if kind == frames.DATA]

    wait = sending.MAX_WAIT_SECONDS
    for stream in (one, two):
        stream.open(HEAD)
    assert send(one, 0) == []
    assert send(two, 0.9 * wait) == []
    assert send(one, 0.2 * wait) == [1, 3, 1]
    assert send(two, 0.9 * wait) == []
    assert send(one, 0.2 * wait) == [3, 1]
    assert send(two, 0) == []
    await asyncio.sleep(0)
    assert kinds(served.transport.take()) == [(frames.DATA, 3)]


@pytest.mark.parametrize("size", [16_000, 100_000])  # written at once, and in turns
async def test_frequent_window_updates_are_not_a_flood(size: int) -> None:
    served = with_room()
    (one,) = streams_of(served, 1)
    one.open(HEAD)
    for _ in range(32_000_000 // size):
        one.send(b"", b"x" * size)
        served.transport.take()
        for _ in range(size // 4_000):
            served.feed(frames.window_update(0, 4_000) + frames.window_update(1, 4_000))
        assert not served.connection.ended


async def test_large_response_is_one_write() -> None:
    served = with_room()
    (one,) = streams_of(served, 1)
    one.remote_ended = True
    before = served.transport.times_written
    assert one.respond(HEAD, b"", b"x" * (sending.TURN - 1), TRAILERS)
    assert served.transport.times_written == before + 1
    found = [kind for kind, _ in kinds(served.transport.take())]
    assert (found[0], found[-1]) == (frames.HEADERS, frames.HEADERS)
    assert {*found[1:-1]} == {frames.DATA}
    assert not served.connection.streams


async def test_fast_client_gets_longer_writes_than_slow_client() -> None:
    served = with_room(1 << 25)
    (one,) = streams_of(served, 1)
    one.open(HEAD)
    one.send(b"", b"x" * (1 << 23))
    sizes = [sending.TURN << doubled for doubled in range(5)]
    assert sizes[-1] == sending.MAX_TURN_BYTES
    assert served.connection._turn_bytes == sending.MAX_TURN_BYTES
    assert (
        served.transport.times_written <= len(sizes) + (1 << 23) // sending.MAX_TURN_BYTES + 1
    )  # and SETTINGS
    assert len(served.transport.take()) > 1 << 23
    served.transport.unsent = 1
    one.send(b"", b"x" * (1 << 21))
    assert served.connection._turn_bytes == sending.TURN


async def test_head_of_large_response_waits_with_it_for_the_transport() -> None:
    served = with_room()
    one, two = streams_of(served, 2)
    served.connection.pause_writing()
    for stream in (one, two):
        stream.remote_ended = True
        stream.respond(HEAD, b"", b"x" * BIG, TRAILERS)
    await asyncio.sleep(0)
    assert not served.transport.written
    served.connection.resume_writing()
    written = served.transport.take()
    for stream in (1, 3):
        of = [kind for kind, id in kinds(written) if id == stream]
        assert (of[0], of[-1]) == (frames.HEADERS, frames.HEADERS)
        assert {*of[1:-1]} == {frames.DATA}
    assert not served.connection.streams


async def test_announced_heads_wait_for_the_transport() -> None:
    served = with_room()
    one, _ = streams_of(served, 2)
    served.connection.pause_writing()
    one.open(HEAD)
    one.send_head()
    await asyncio.sleep(0)
    assert not served.transport.written
    served.connection.resume_writing()
    await asyncio.sleep(0)
    assert kinds(served.transport.take()) == [(frames.HEADERS, 1)]
    one.send(b"", b"x")
    await asyncio.sleep(0)
    assert kinds(served.transport.take()) == [(frames.DATA, 1)]


async def test_delayed_head_does_not_wait_for_the_connection_window() -> None:
    served = opened()
    one, two = streams_of(served, 2)
    one.open(HEAD)
    one.send(b"", b"x" * settings.DEFAULT_WINDOW)
    served.transport.take()
    served.connection.pause_writing()
    two.open(HEAD)
    two.send(b"", b"x")
    await asyncio.sleep(0)
    assert not served.transport.written
    served.connection.resume_writing()
    await asyncio.sleep(0)
    assert kinds(served.transport.take()) == [(frames.HEADERS, 3)]
    written = served.feed(frames.window_update(0, 1))
    await asyncio.sleep(0)
    assert kinds(written + served.transport.take()) == [(frames.DATA, 3)]


async def test_waiting_streams_get_short_turns_and_the_last_long_ones() -> None:
    served = with_room(1 << 25)
    one, two = streams_of(served, 2)
    connection = served.connection
    for stream in (one, two):
        stream.open(HEAD)
    one.send(b"", b"x" * (1 << 23))
    assert connection._turn_bytes == sending.MAX_TURN_BYTES
    served.transport.take()
    connection.pause_writing()
    one.send(b"", b"x" * (1 << 22))
    two.send(b"", b"x" * (1 << 20))
    sent, times = connection.sent, served.transport.times_written
    connection.resume_writing()
    assert served.transport.times_written - times < 50
    of, sizes = [], []
    for kind, _, id, payload in read_frames(served.transport.take()):
        if kind == frames.DATA:
            if of and of[-1] == id:
                sizes[-1] += len(payload)
            else:
                of.append(id)
                sizes.append(len(payload))
    assert of == [1, 3] * (len(of) // 2) + [1]
    assert {*sizes[:-1]} == {sending.TURN}
    assert sizes[-1] > sending.MAX_TURN_BYTES
    assert connection.sent - sent >= (1 << 22) // sending.UNIT  # what lets the client send frames of control


async def test_delayed_head_does_not_wait_for_the_stream_window() -> None:
    served = opened(INITIAL_WINDOW_SIZE=0)
    (one,) = streams_of(served, 1)
    served.connection.pause_writing()
    one.open(HEAD)
    one.send(b"", b"x")
    assert not served.transport.written
    served.connection.resume_writing()
    assert kinds(served.transport.take()) == [(frames.HEADERS, 1)]
    assert kinds(served.feed(frames.window_update(1, 1))) == [(frames.DATA, 1)]

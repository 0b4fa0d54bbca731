"""Random conversations with the package `h2`, and random damage to them."""

import asyncio
import struct
from collections.abc import Callable
from itertools import pairwise

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings
from hypothesis import given
from hypothesis import strategies as st

from inferstream.server.http2 import frames
from inferstream.server.http2.connection import NOT_HTTP2
from inferstream.server.http2.errors import ErrorCode
from inferstream.server.http2.hpack import encode
from inferstream.server.http2.limits import Http2Limits
from tests.examples import examples

from .conversations import Served, read_frames

PATHS = [b"/whole", b"/late", b"/stream", b"/refuse"]
CODES = {int(code) for code in ErrorCode}
FIELDS = st.lists(
    st.tuples(
        st.sampled_from([b"x-request-id", b"grpc-timeout", b"user-agent", b"traceparent", b"key-bin"]),
        st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=30).map(str.encode),
    ),
    max_size=4,
)


def in_a_loop(work: Callable[[], None]) -> None:
    """A connection needs a loop for its clock and its futures. Nothing here waits."""

    async def run() -> None:
        work()

    asyncio.run(run())


class Client:
    """The package's client, whose view of what we write is the judgement of it."""

    def __init__(self) -> None:
        config = h2.config.H2Configuration(client_side=True, header_encoding=None)
        self.h2 = h2.connection.H2Connection(config)
        self.h2.initiate_connection()
        self.bodies: dict[int, bytearray] = {}
        self.to_send: dict[int, list] = {}
        self.responses: dict[int, bytearray] = {}
        self.complete: set[int] = set()
        self.over: set[int] = set()
        self.refused: set[int] = set()
        self.events: list[h2.events.Event] = []

    def request(self, path: bytes, fields: list, chunks: list, trailers: bool) -> None:
        id = self.h2.get_next_available_stream_id()
        head = [
            (b":method", b"POST"),
            (b":scheme", b"http"),
            (b":authority", b"x"),
            (b":path", path),
            *fields,
        ]
        self.h2.send_headers(id, head, end_stream=not chunks and not trailers)
        self.bodies[id] = bytearray(b"".join(chunk for chunk, _ in chunks))
        self.responses[id] = bytearray()
        if path == b"/refuse":
            self.refused.add(id)
        if chunks or trailers:
            self.to_send[id] = [*chunks, trailers]

    def send_some(self, id: int) -> None:
        """Send the next part of a body, or as much of it as the windows allow."""
        left = self.to_send[id]
        first = left.pop(0)
        if isinstance(first, bool):
            if first:
                self.h2.send_headers(id, [(b"x-checksum", b"7")], end_stream=True)
            else:
                self.h2.end_stream(id)
            del self.to_send[id]
            return
        chunk, padding = first
        room = (
            min(self.h2.local_flow_control_window(id), self.h2.max_outbound_frame_size) - 1 - (padding or 0)
        )
        part = chunk[: max(room, 0)]
        if part or (not chunk and room >= 0):
            self.h2.send_data(id, part, pad_length=padding)
        if part != chunk:
            left.insert(0, (chunk[len(part) :], padding))

    def reset(self, id: int) -> None:
        self.h2.reset_stream(id, h2.errors.ErrorCodes.CANCEL)
        self.to_send.pop(id, None)
        self.over.add(id)

    def open(self) -> list[int]:
        return [id for id in self.bodies if id not in self.complete | self.over]

    def receive(self, data: bytes, read: bool) -> None:
        """Take what the server wrote. Raises where it broke the protocol. `read` gives its window back."""
        for event in self.h2.receive_data(data):
            match event:
                case h2.events.DataReceived():
                    self.responses[event.stream_id] += event.data
                    if read and event.flow_controlled_length:
                        self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                case h2.events.StreamEnded():
                    self.complete.add(event.stream_id)
                    self.to_send.pop(event.stream_id, None)
                case h2.events.StreamReset():
                    assert event.error_code == ErrorCode.NO_ERROR, "a valid request was refused"
                    self.to_send.pop(event.stream_id, None)
                    self.over.add(event.stream_id)
                case h2.events.ConnectionTerminated():
                    raise AssertionError(f"the server ended the connection: {event}")


CHUNKS = st.lists(
    st.tuples(
        st.one_of(st.binary(max_size=50), st.integers(1000, 40_000).map(lambda size: b"c" * size)),
        st.one_of(st.none(), st.integers(0, 255)),
    ),
    max_size=4,
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("request"), st.sampled_from(PATHS), FIELDS, CHUNKS, st.booleans()),
        st.tuples(st.just("send"), st.integers(0, 9)),
        st.tuples(st.just("send"), st.integers(0, 9)),
        st.tuples(st.just("reset"), st.integers(0, 9)),
        st.tuples(st.just("ping"), st.binary(min_size=8, max_size=8)),
        st.tuples(st.just("window"), st.sampled_from([0, 10, 1000, 65_535, 1_000_000])),
        st.tuples(st.just("frame"), st.sampled_from([16_384, 20_000, 100_000])),
        st.tuples(st.just("table"), st.sampled_from([0, 100, 4096])),
        st.tuples(st.just("priority"), st.integers(0, 9)),
    ),
    max_size=14,
)


def step(client: Client, kind: str, values: tuple) -> None:
    open_ids = client.open()
    match kind:
        case "request":
            client.request(*values)
        case "send":
            if client.to_send:
                client.send_some([*client.to_send][values[0] % len(client.to_send)])
        case "reset":
            if open_ids:
                client.reset(open_ids[values[0] % len(open_ids)])
        case "ping":
            client.h2.ping(values[0])
        case "window":
            client.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: values[0]})
        case "frame":
            client.h2.update_settings({h2.settings.SettingCodes.MAX_FRAME_SIZE: values[0]})
        case "table":
            client.h2.encoder.header_table_size = values[0]
        case "priority":
            if open_ids:
                client.h2.prioritize(open_ids[values[0] % len(open_ids)], weight=3, depends_on=0)


@examples(200)
@given(st.sampled_from([None, 0, 10, 1000]), STEPS, st.booleans(), st.randoms(use_true_random=False))
def test_valid_conversation(window: int | None, steps: list, read: bool, random) -> None:
    """Whatever a valid client does, in whatever pieces: what it gets is valid, and every response is whole."""

    def converse() -> None:
        served, client = Served(Http2Limits(max_ping_strikes=None)), Client()

        def exchange(reading: bool) -> None:
            for _ in range(50):
                data = client.h2.data_to_send()
                pieces = cut(data, random)
                written = b"".join(map(served.feed, pieces)) if data else served.transport.take()
                if not data and not written:
                    return
                client.receive(written, reading)

        exchange(read)
        if window is not None:
            step(client, "window", (window,))
            exchange(read)
        for kind, *values in steps:
            step(client, kind, tuple(values))
            exchange(read)
        for id in [*client.to_send] * 5:  # until the windows of a client that does not read are closed
            if id in client.to_send:
                client.send_some(id)
                exchange(read)
        client.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 1_000_000})
        client.h2.increment_flow_control_window(2**30)
        exchange(True)
        for _ in range(500):
            if not client.to_send:
                break
            for id in [*client.to_send]:
                if id in client.to_send:
                    client.send_some(id)
            exchange(True)
        assert not served.connection.ended
        assert not client.to_send
        for id, body in client.bodies.items():
            if id in client.refused:
                assert id in client.complete | client.over
            elif id not in client.over:
                assert id in client.complete
                assert client.responses[id] == body
        assert served.connection._held == 0
        served.leave()

    in_a_loop(converse)


def cut(data: bytes, random) -> list[bytes]:
    """The bytes as they may arrive."""
    if not data or random.random() < 0.5:
        return [data]
    if random.random() < 0.2 and len(data) < 500:
        return [data[at : at + 1] for at in range(len(data))]
    points = sorted({0, len(data), *(random.randrange(len(data)) for _ in range(4))})
    return [data[begin:end] for begin, end in pairwise(points)]


HEADS = [
    [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", path),
        (b":authority", b"x"),
        (b"te", b"trailers"),
    ]
    for path in PATHS
]
BLOCKS = st.one_of(
    st.sampled_from([encode(head) for head in HEADS]),
    st.sampled_from([encode(head[1:]) for head in HEADS] + [encode([*head, (b"X", b"y")]) for head in HEADS]),
    st.sampled_from(
        [encode([(b"x-checksum", b"7")]), b"", b"\x82", b"\x80", b"\xbe", b"\x20\x20", b"\x3f\xff\xff\xff"]
    ),
    st.binary(max_size=20),
)
LONGS = st.one_of(st.sampled_from([0, 1, 2**31 - 1, 2**31, 2**32 - 1]), st.integers(0, 100_000)).map(
    lambda value: struct.pack(">L", value)
)
SETTING = st.tuples(
    st.integers(0, 8), st.sampled_from([0, 1, 2, 100, 16_383, 16_384, 2**24 - 1, 2**24, 2**31 - 1, 2**31])
).map(lambda pair: struct.pack(">HL", *pair))
PAYLOADS = {
    frames.DATA: st.one_of(st.binary(max_size=30), st.just(b"d" * 5000)),
    frames.HEADERS: BLOCKS,
    frames.PRIORITY: st.one_of(st.binary(min_size=5, max_size=5), st.binary(max_size=7)),
    frames.RST_STREAM: st.one_of(LONGS, st.binary(max_size=6)),
    frames.SETTINGS: st.one_of(
        st.lists(SETTING, max_size=3).map(b"".join), st.binary(max_size=13), st.just(b"")
    ),
    frames.PUSH_PROMISE: st.binary(max_size=9),
    frames.PING: st.one_of(st.binary(min_size=8, max_size=8), st.binary(max_size=9)),
    frames.GOAWAY: st.one_of(st.binary(min_size=8, max_size=12), st.binary(max_size=8)),
    frames.WINDOW_UPDATE: st.one_of(LONGS, st.binary(max_size=5)),
    frames.CONTINUATION: BLOCKS,
    0x20: st.binary(max_size=20),
}
KINDS = st.sampled_from([*PAYLOADS, frames.HEADERS, frames.HEADERS, frames.HEADERS, frames.DATA, frames.DATA])
FLAGS = st.one_of(st.sampled_from([0, 1, 4, 5]), st.sampled_from([0, 1, 4, 5]), st.integers(0, 255))
STREAMS = st.one_of(st.sampled_from([1, 3, 5, 7]), st.sampled_from([0, 1, 2, 9, 2**31 - 1, 2**31 + 1]))
FRAMES = st.lists(
    KINDS.flatmap(lambda kind: st.tuples(st.just(kind), FLAGS, STREAMS, PAYLOADS[kind])), max_size=12
)
START = frames.PREFACE + frames.frame(frames.SETTINGS, 0, 0, b"")


def judge(data: bytes, pieces: list[bytes]) -> None:
    """Whatever the bytes: no exception, whole and legal frames, a reason for the end, and no request forgotten."""
    served = Served()
    written = served.transport.take() + b"".join(map(served.feed, pieces))
    found = list(read_frames(written.removesuffix(NOT_HTTP2)))
    assert written == NOT_HTTP2 or found[0][0] == frames.SETTINGS
    for kind, _, stream, payload in found:
        if kind in (frames.RST_STREAM, frames.GOAWAY):
            code = int.from_bytes(payload[4:8] if kind == frames.GOAWAY else payload, "big")
            assert code in CODES, "an unknown error code"
            assert code != ErrorCode.INTERNAL_ERROR
        assert stream == 0 or kind != frames.HEADERS or stream in served.echoes
    if served.connection.ended and data.startswith(frames.PREFACE):
        kinds = [kind for kind, *_ in found]
        assert frames.GOAWAY in kinds, "the connection ended without a reason"
        assert kinds[-1] == frames.GOAWAY, "a frame follows the last GOAWAY"
    assert served.transport.closed == served.connection.ended
    served.leave()


@examples(300)
@given(FRAMES, st.randoms(use_true_random=False))
def test_arbitrary_frames(sent: list, random) -> None:
    data = START + b"".join(frames.frame(*each) for each in sent)
    in_a_loop(lambda: judge(data, cut(data, random)))


def refused_by_h2(data: bytes) -> bool:
    """Whether the package's server ends the connection. It does so where the RFC would end a stream, too."""
    server = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding=None))
    limits = Http2Limits()
    server.local_settings.max_frame_size = server.max_inbound_frame_size = limits.max_frame
    server.initiate_connection()
    server.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: limits.stream_window})
    try:
        server.receive_data(data)
    except h2.exceptions.ProtocolError:
        return True
    return False


@examples(300)
@given(FRAMES)
def test_accepts_and_refuses_the_same_as_h2(sent: list) -> None:
    """Up to the first frame that either refuses. The package takes the reset of a stream that never was."""

    def compare() -> None:
        served, data = Served(Http2Limits(max_ping_strikes=None), silent=True), START
        served.feed(START)
        for each in sent:
            kind, _, _, payload = each
            if kind == frames.PUSH_PROMISE or (kind == frames.WINDOW_UPDATE and payload[:1] >= b"\x80"):
                return  # the package lets the first pass, if a CONTINUATION follows, and minds the reserved bit
            data += frames.frame(*each)
            answers = [answer for answer, *_ in read_frames(served.feed(frames.frame(*each)))]
            if served.connection.ended:
                assert refused_by_h2(data) or kind in (frames.GOAWAY, frames.RST_STREAM)
                return
            if served.connection.waits_for_more or frames.RST_STREAM in answers:
                return  # a block without an end is judged at its end
            assert not refused_by_h2(data)

    in_a_loop(compare)


@examples(200)
@given(STEPS, st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), max_size=4), st.data())
def test_corrupted_conversation(steps: list, damage: list, data: st.DataObject) -> None:
    client = Client()
    for kind, *values in steps:
        step(client, kind, tuple(values))
    for id in [*client.to_send]:
        client.send_some(id)
    sent = bytearray(client.h2.data_to_send())
    for at, byte in damage:
        sent[at % len(sent)] = byte
    if data.draw(st.booleans()):
        del sent[data.draw(st.integers(0, len(sent))) :]
    random = data.draw(st.randoms(use_true_random=False))
    in_a_loop(lambda: judge(bytes(sent), cut(bytes(sent), random)))


@given(st.binary(max_size=60), st.booleans())
def test_arbitrary_bytes(data: bytes, begun: bool) -> None:
    sent = START + data if begun else data
    in_a_loop(lambda: judge(sent, [sent]))

"""Responses in any order beside windows, resets and a transport that does not take them; the package `h2` judges."""

import asyncio
from dataclasses import dataclass, field

import h2.config
import h2.connection
import h2.events
import h2.settings
from hypothesis import given
from hypothesis import strategies as st

from inferstream.server.http2.errors import ErrorCode
from inferstream.server.http2.stream import Stream
from tests.examples import examples

from .conversations import HEAD, TRAILERS, Served

SIZES = st.sampled_from([0, 1, 1_000, 70_000, 300_000, 2_500_000])
WINDOWS = st.sampled_from([1, 4_000, 70_000, 1 << 20])


@dataclass
class Response:
    """What the application has done with a stream, and what its client has of it."""

    stream: Stream
    sent: bytearray = field(default_factory=bytearray)
    begun: bool = False
    done: bool = False
    received: bytearray = field(default_factory=bytearray)
    ended: bool = False
    reset: bool = False

    def act(self, kind: str, body: bytes) -> None:
        stream = self.stream
        if kind == "respond" and not self.begun:
            self.begun = self.done = True
            self.sent += b"12345" + body
            stream.respond(HEAD, b"12345", body, TRAILERS)
        elif kind == "open" and not self.begun:
            self.begun = True
            stream.open(HEAD)
        elif kind == "head" and self.begun:
            stream.connection.run_later(stream.send_head)
        elif kind == "send" and self.begun and not self.done:
            self.sent += b"12345" + body
            stream.send(b"12345", body)
        elif kind == "finish" and self.begun and not self.done:
            self.done = True
            self.sent += body
            stream.finish(TRAILERS, body)


class Conversation:
    def __init__(self, window: int, largest_frame: int) -> None:
        self.client = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding=None))
        self.client.initiate_connection()
        names = h2.settings.SettingCodes
        self.client.update_settings({names.INITIAL_WINDOW_SIZE: window, names.MAX_FRAME_SIZE: largest_frame})
        self.served = Served(silent=True)
        self.responses: dict[int, Response] = {}
        self.exchange()

    def exchange(self) -> None:
        """Carry the bytes of both sides. Raises where we broke the protocol."""
        while True:
            for event in self.client.receive_data(self.served.transport.take()):
                match event:
                    case h2.events.DataReceived():
                        self.responses[event.stream_id].received += event.data
                    case h2.events.StreamEnded() | h2.events.StreamReset():
                        self.responses[event.stream_id].ended = True
            data = self.client.data_to_send()
            if data and not self.served.connection.ended:
                self.served.connection.data_received(data)
            if not self.served.transport.written:
                return

    def request(self) -> None:
        id = self.client.get_next_available_stream_id()
        head = {":method": "POST", ":scheme": "http", ":authority": "x", ":path": "/x"}
        self.client.send_headers(id, [*head.items()], end_stream=True)
        self.served.connection.data_received(self.client.data_to_send())
        self.responses[id] = Response(self.served.echoes[id].stream)

    def step(self, kind: str, which: int, body: int, window: int) -> None:
        connection = self.served.connection
        if kind == "pause":
            connection.pause_writing()
        elif kind == "resume":
            connection.resume_writing()
        elif kind == "request" or not self.responses:
            self.request()
        elif kind == "more":
            self.client.increment_flow_control_window(window)
        else:
            id = [*self.responses][which % len(self.responses)]
            response = self.responses[id]
            if response.stream.ended:
                return
            if kind == "window":
                self.exchange()
                if not response.ended:
                    self.client.increment_flow_control_window(window, id)
            elif kind == "reset":
                response.done = True
                response.reset = True
                response.stream.reset(ErrorCode.CANCEL)
            else:
                response.act(kind, bytes([which]) * body)

    async def end(self) -> None:
        """Let everything leave, and compare."""
        for response in self.responses.values():
            response.act("respond", b"")
            response.act("finish", b"")
        self.served.connection.resume_writing()
        await asyncio.sleep(0)
        self.exchange()
        self.client.increment_flow_control_window(1 << 30)
        for id, response in self.responses.items():
            self.exchange()
            if not response.ended:
                self.client.increment_flow_control_window(1 << 29, id)
        self.exchange()
        await asyncio.sleep(0)
        self.exchange()
        for response in self.responses.values():
            assert response.ended
            assert response.received == response.sent or response.reset
        connection = self.served.connection
        for left in (connection.streams, connection.waiting, connection.beginning, connection.ending):
            assert not left


KINDS = st.sampled_from(
    [
        "request",
        "respond",
        "respond",
        "open",
        "head",
        "send",
        "send",
        "finish",
        "reset",
        "window",
        "more",
        "pause",
        "resume",
        "turn",
        "slow",
        "fast",
        "read",
    ]
)


@examples(150)
@given(
    window=st.sampled_from([0, 1, 65_535, 1 << 23]),
    largest_frame=st.sampled_from([16_384, 1 << 20]),
    steps=st.lists(st.tuples(KINDS, st.integers(0, 5), SIZES, WINDOWS), max_size=40),
)
def test_responses_are_complete_and_in_order(window: int, largest_frame: int, steps: list) -> None:
    async def run() -> None:
        conversation = Conversation(window, largest_frame)
        for kind, which, body, opened in steps:
            if kind == "turn":
                await asyncio.sleep(0)
            elif kind in ("slow", "fast"):
                conversation.served.transport.unsent = int(kind == "slow")
            elif kind == "read":
                conversation.exchange()
            else:
                conversation.step(kind, which, body, opened)
        await conversation.end()

    asyncio.run(run())

"""The reactions that a case can wait for."""

from typing import Protocol

from . import wire
from .conversation import CODES, Conversation, Frame, Unexpected
from .wire import ACK


def says_an_error(frame: Frame) -> bool:
    """Whether the server ends the connection for an error, and not because it drains."""
    return frame.kind == wire.GOAWAY and frame.payload[4:8] != bytes(4)


class Expectation(Protocol):
    def check(self, conversation: Conversation) -> None: ...


def _codes(codes: tuple[int, ...]) -> str:
    return " or ".join(CODES[code] for code in codes)


class EndsConnection(Expectation):
    """GOAWAY with one of the codes, then the end of the connection (RFC 9113, 5.4.1)."""

    def __init__(self, *codes: int) -> None:
        self.codes = codes

    def check(self, conversation: Conversation) -> None:
        wanted = f"GOAWAY {_codes(self.codes)}"
        found = conversation.wait_for(lambda frame: frame.kind == wire.GOAWAY, wanted)
        if int.from_bytes(found.payload[4:8]) not in self.codes:
            raise Unexpected(f"expected {wanted}, got {found}")
        conversation.wait_for_end()


class EndsStream(Expectation):
    """RST_STREAM with one of the codes, while the connection goes on (5.4.2)."""

    def __init__(self, *codes: int, stream: int = 1) -> None:
        self.codes, self.stream = codes, stream

    def check(self, conversation: Conversation) -> None:
        wanted = f"RST_STREAM {_codes(self.codes)} on {self.stream}"
        found = conversation.wait_for(
            lambda frame: frame.kind == wire.GOAWAY or frame[0:3:2] == (wire.RST_STREAM, self.stream), wanted
        )
        if found.kind == wire.GOAWAY or int.from_bytes(found.payload) not in self.codes:
            raise Unexpected(f"expected {wanted}, got {found}")
        conversation.ping()


class EndsEither(Expectation):
    """An error of the stream or of the connection, where the RFC leaves the choice to the receiver."""

    def __init__(self, *codes: int, stream: int = 1) -> None:
        self.codes, self.stream = codes, stream

    def check(self, conversation: Conversation) -> None:
        wanted = f"RST_STREAM or GOAWAY {_codes(self.codes)}"
        found = conversation.wait_for(
            lambda frame: frame.kind == wire.GOAWAY or frame[0:3:2] == (wire.RST_STREAM, self.stream), wanted
        )
        payload = found.payload if found.kind == wire.RST_STREAM else found.payload[4:8]
        if int.from_bytes(payload) not in self.codes:
            raise Unexpected(f"expected {wanted}, got {found}")


class Malformed(Expectation):
    """A stream error PROTOCOL_ERROR, or a response 4xx, and the connection goes on (8.1.1)."""

    def __init__(self, stream: int = 1) -> None:
        self.stream = stream

    def check(self, conversation: Conversation) -> None:
        wanted = "RST_STREAM PROTOCOL_ERROR or a response 4xx"
        response = conversation.response(self.stream)
        conversation.wait_for(
            lambda frame: frame.kind == wire.GOAWAY or response.ended or response.reset is not None, wanted
        )
        if response.reset != wire.PROTOCOL_ERROR and not response.status.startswith("4"):
            raise Unexpected(f"expected {wanted}, got {response} and {conversation.seen()}")
        conversation.ping()


class Answered(Expectation):
    """The whole response on a stream."""

    def __init__(self, stream: int = 1) -> None:
        self.stream = stream

    def check(self, conversation: Conversation) -> None:
        response = conversation.response(self.stream)
        if not response.ended:
            conversation.wait_for(
                lambda frame: response.ended or response.reset is not None or says_an_error(frame),
                f"a response on {self.stream}",
            )
        if not response.ended or response.status != "200" or not response.data:
            raise Unexpected(
                f"expected a response on {self.stream}, got {response} and {conversation.seen()}"
            )


class Begun(Expectation):
    """The header block of the response, and exactly so many octets of DATA."""

    def __init__(self, octets: int = 0, stream: int = 1) -> None:
        self.octets, self.stream = octets, stream

    def check(self, conversation: Conversation) -> None:
        response = conversation.response(self.stream)
        if not (response.begun and len(response.data) >= self.octets):
            conversation.wait_for(
                lambda _: response.begun and len(response.data) >= self.octets,
                f"the beginning of a response and {self.octets} octets of DATA",
            )
        conversation.ping()
        if len(response.data) != self.octets or response.ended:
            raise Unexpected(f"expected {self.octets} octets of DATA on {self.stream}, got {response}")


class Alive(Expectation):
    """No reaction: the server has read everything, and neither ended the connection nor a stream."""

    def check(self, conversation: Conversation) -> None:
        conversation.ping()
        if any(frame.kind in (wire.GOAWAY, wire.RST_STREAM) for frame in conversation.frames):
            raise Unexpected(f"expected no reaction, got {conversation.seen()}")


class Acknowledged(Expectation):
    """As many acknowledgements of SETTINGS."""

    def __init__(self, count: int = 1) -> None:
        self.count = count

    def check(self, conversation: Conversation) -> None:
        def acknowledgements() -> int:
            return sum(
                frame.kind == wire.SETTINGS and bool(frame.flags & ACK) for frame in conversation.frames
            )

        if acknowledgements() < self.count:
            conversation.wait_for(
                lambda _: acknowledgements() >= self.count, "an acknowledgement of SETTINGS"
            )


class Received(Expectation):
    """A frame that is equal to these bytes."""

    def __init__(self, octets: bytes) -> None:
        self.octets = octets

    def check(self, conversation: Conversation) -> None:
        conversation.wait_for(
            lambda frame: wire.frame(frame.kind, frame.flags, frame.stream, frame.payload) == self.octets,
            f"the frame {self.octets.hex()}",
        )


class NotReceived(Expectation):
    """Nothing that is equal to these bytes, when the server has read everything."""

    def __init__(self, octets: bytes) -> None:
        self.octets = octets

    def check(self, conversation: Conversation) -> None:
        conversation.ping()
        for frame in conversation.frames:
            if wire.frame(frame.kind, frame.flags, frame.stream, frame.payload) == self.octets:
                raise Unexpected(f"did not expect {frame}")


class Closed(Expectation):
    """The end of the connection, with or without GOAWAY."""

    def check(self, conversation: Conversation) -> None:
        conversation.wait_for_end()

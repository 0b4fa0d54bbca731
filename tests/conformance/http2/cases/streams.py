"""RFC 9113, section 5: states of streams, their identifiers and number, errors, and extensions."""

from ..case import Case, case
from ..reactions import Alive, Answered, Begun, EndsConnection, EndsEither, EndsStream, Expectation
from ..request import BLOCK, body, head, request
from ..wire import (
    CANCEL,
    END_HEADERS,
    INITIAL_WINDOW_SIZE,
    MAX_CONCURRENT_STREAMS,
    PROTOCOL_ERROR,
    REFUSED_STREAM,
    STREAM_CLOSED,
    UNKNOWN,
    WHOLE,
    WITH_PRIORITY,
    continuation,
    data,
    frame,
    headers,
    priority,
    priority_fields,
    rst_stream,
    settings,
    window_update,
)

NO_WINDOW = ((INITIAL_WINDOW_SIZE, 0),)
"""With these settings the response's DATA waits, so that the stream stays half-closed."""


def idle(what: str, octets: bytes) -> Case:
    return case("5.1", f"{what} on an idle stream", octets, EndsConnection(PROTOCOL_ERROR))


def half_closed(what: str, octets: bytes, *then: Expectation | bytes) -> Case:
    name = f"{what} on a stream that the client has half-closed"
    return case("5.1", name, request(), Begun(), octets, *then, settings=NO_WINDOW)


def reset(what: str, octets: bytes, *then: Expectation | bytes) -> Case:
    """The stream is closed by the client's RST_STREAM."""
    return case("5.1", f"{what} after RST_STREAM", head(), rst_stream(1), octets, *then)


def ended(what: str, octets: bytes, *then: Expectation | bytes) -> Case:
    """The stream is closed by END_STREAM on both sides."""
    return case("5.1", f"{what} on a stream that has ended", request(), Answered(), octets, *then)


def one_stream_too_many(advertised: dict[int, int]) -> bytes:
    most = advertised[MAX_CONCURRENT_STREAMS]
    return b"".join(head(2 * number + 1) for number in range(most + 1))


class RefusesTheLast(Expectation):
    """A stream error on the first stream above SETTINGS_MAX_CONCURRENT_STREAMS; the others go on."""

    def check(self, conversation) -> None:
        last = 2 * conversation.settings[MAX_CONCURRENT_STREAMS] + 1
        EndsStream(PROTOCOL_ERROR, REFUSED_STREAM, stream=last).check(conversation)
        conversation.send(body(1) + body(last - 2))
        Answered(1).check(conversation)
        Answered(last - 2).check(conversation)


CLOSED = (STREAM_CLOSED, PROTOCOL_ERROR)
WINDOW = window_update(1, 100)

CASES = [
    idle("DATA", data(b"")),
    idle("RST_STREAM", rst_stream(1)),
    idle("WINDOW_UPDATE", WINDOW),
    idle("CONTINUATION", continuation(BLOCK)),
    case("5.1", "PRIORITY on an idle stream", priority(1), priority(3, 1), request(5), Answered(5)),
    half_closed("DATA", data(b"x"), EndsEither(STREAM_CLOSED)),
    half_closed("HEADERS", headers(BLOCK), EndsEither(STREAM_CLOSED)),
    half_closed("CONTINUATION", continuation(BLOCK), EndsEither(*CLOSED)),
    half_closed("WINDOW_UPDATE", WINDOW, Answered()),
    half_closed("PRIORITY", priority(1), Alive(), WINDOW, Answered()),
    half_closed("RST_STREAM", rst_stream(1), Alive(), request(3), WINDOW, window_update(3, 100), Answered(3)),
    half_closed("an unknown frame", frame(UNKNOWN, 0, 1), Alive(), WINDOW, Answered()),
    reset("DATA", data(b"x"), EndsEither(*CLOSED)),
    reset("HEADERS", headers(BLOCK), EndsEither(*CLOSED)),
    reset("CONTINUATION", continuation(BLOCK), EndsEither(*CLOSED)),
    reset("PRIORITY", priority(1), Alive()),
    reset("WINDOW_UPDATE", WINDOW, Alive()),
    reset("RST_STREAM", rst_stream(1), Alive()),
    reset("another request", request(3), Answered(3)),
    ended("DATA", data(b"x"), EndsEither(*CLOSED)),
    ended("HEADERS", headers(BLOCK), EndsEither(*CLOSED)),
    ended("CONTINUATION", continuation(BLOCK), EndsEither(*CLOSED)),
    ended("PRIORITY", priority(1), Alive()),
    ended("WINDOW_UPDATE", WINDOW, Alive()),
    ended("RST_STREAM", rst_stream(1), Alive()),
    case("5.1.1", "an even identifier", headers(BLOCK, 2), EndsConnection(PROTOCOL_ERROR)),
    case(
        "5.1.1",
        "an identifier below the last",
        request(5),
        Answered(5),
        headers(BLOCK, 3),
        EndsEither(*CLOSED, stream=3),
    ),
    case("5.1.1", "HEADERS on stream 0", headers(BLOCK, 0), EndsConnection(PROTOCOL_ERROR)),
    case(
        "5.1.1",
        "identifiers with gaps",
        request(1),
        request(7),
        request(1_001),
        Answered(1),
        Answered(7),
        Answered(1_001),
    ),
    case("5.1.1", "the largest identifier", request(2**31 - 1), Answered(2**31 - 1)),
    case("5.1.2", "one stream above SETTINGS_MAX_CONCURRENT_STREAMS", one_stream_too_many, RefusesTheLast()),
    case(
        "5.1.2",
        "streams that ended do not count",
        *(step for number in range(1, 241, 2) for step in (request(number), Answered(number))),
    ),
    case(
        "5.3.1",
        "HEADERS that depend on their own stream",
        headers(priority_fields(1) + BLOCK, flags=WHOLE | WITH_PRIORITY),
        EndsEither(PROTOCOL_ERROR),
    ),
    case(
        "5.3.1", "PRIORITY that depends on its own stream", head(), priority(1, 1), EndsStream(PROTOCOL_ERROR)
    ),
    case(
        "5.3.2",
        "HEADERS with priority",
        headers(priority_fields(0, 255, exclusive=True) + BLOCK, flags=END_HEADERS | WITH_PRIORITY),
        body(),
        Answered(),
    ),
    case(
        "5.3.2",
        "PRIORITY of every weight",
        *(priority(1, 0, weight) for weight in (0, 1, 127, 255)),
        request(),
        Answered(),
    ),
    case(
        "5.3.2",
        "PRIORITY that depends on streams that do not exist",
        priority(3, 99, exclusive=True),
        request(),
        Answered(),
    ),
    case("5.4.1", "an error of the connection closes it", data(b"", 0), EndsConnection(PROTOCOL_ERROR)),
    case(
        "5.4.1",
        "no request is served after the error",
        data(b"", 0),
        request(),
        EndsConnection(PROTOCOL_ERROR),
    ),
    case(
        "5.4.2",
        "another stream goes on after an error of a stream",
        head(1),
        window_update(1, 0),
        EndsStream(PROTOCOL_ERROR),
        request(3),
        Answered(3),
    ),
    case(
        "5.4.2",
        "frames on their way when the server resets a stream",
        head(1),
        window_update(1, 0) + data(b"x", flags=0) + WINDOW + rst_stream(1),
        EndsStream(PROTOCOL_ERROR),
        request(3),
        Answered(3),
    ),
    case(
        "5.4.2",
        "RST_STREAM of an open stream",
        head(),
        rst_stream(1, CANCEL),
        Alive(),
        request(3),
        Answered(3),
    ),
    case(
        "5.5",
        "an unknown setting and an unknown frame",
        settings((0xFFFF, 1)),
        frame(0xFE, 0xFF, 0, b"x" * 100),
        request(),
        Answered(),
    ),
]

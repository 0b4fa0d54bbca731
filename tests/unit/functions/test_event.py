"""Events with names, media types and parameters, as functions yield them."""

from collections.abc import AsyncIterator, Iterator

import numpy as np
import pytest

from inferstream import App, Event, testing
from inferstream.errors import InvalidOutput
from inferstream.functions.event import without_event
from inferstream.protos.sse import response_event
from inferstream.types import Parameters

app = App()


@app.model
async def named(n: int) -> AsyncIterator[str | Event]:
    yield Event("progress", done=0, of=n)
    yield "text"
    yield Event("last", "value", final=True)


@app.model
def frames() -> Iterator[bytes | Event]:
    yield Event(None, b"\xff", media_type="image/jpeg")


@app.model
async def only() -> AsyncIterator[Event]:
    yield Event("ping")


@app.model
async def wrong() -> AsyncIterator[str | Event]:
    yield Event("value", 17)


async def test_event_is_a_response_with_parameters() -> None:
    async with testing.run(app) as models:
        first, text, last = [each async for each in models.stream("named", n=3)]
        assert dict(first.parameters.items()) == {"event": "progress", "done": 0, "of": 3}
        assert first.outputs == []
        assert text.parameters is None
        assert last.outputs[0].data.peek() == ["value"]
        assert dict(last.parameters.items()) == {"event": "last", "final": True}
        (frame,) = [each async for each in models.stream("frames")]
        assert dict(frame.parameters.items()) == {"media_type": "image/jpeg"}
        assert [each.parameters.event async for each in models.stream("only")] == ["ping"]


async def test_value_has_the_declared_type() -> None:
    async with testing.run(app) as models:
        with pytest.raises(InvalidOutput, match="returned a value of type int"):
            _ = [each async for each in models.stream("wrong")]


@pytest.mark.parametrize("name", ["", "a b", "a\nb", "error", "end", "message", ":a", "x" * 65, 7])
def test_invalid_event_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is no name of an event"):
        Event(name)
    assert response_event(Parameters(event=name), b"{}") == b"data: {}\n\n"


def test_other_invalid_event_fields_are_refused() -> None:
    with pytest.raises(ValueError, match="is no media type"):
        Event("a", b"", media_type="jpeg\r\n")
    with pytest.raises(ValueError, match='parameter "of" of an event is a list'):
        Event("a", of=[1])


def test_event_parameters_may_be_numpy_numbers() -> None:
    event = Event("a", done=np.int64(1), of=np.float32(2), ok=np.bool_(True), name_of=np.str_("x"))
    assert event.parameters == {"event": "a", "done": 1, "of": 2.0, "ok": True, "name_of": "x"}
    assert {type(each) for each in event.parameters.values()} == {str, int, float, bool}


def test_sse_line_of_an_event() -> None:
    assert response_event(Parameters(event="a.b/c"), b"{}") == b"event: a.b/c\ndata: {}\n\n"
    assert response_event(None, b"{}") == response_event(Parameters(x=1), b"{}") == b"data: {}\n\n"


def test_annotations_without_events() -> None:
    assert without_event(str | Event) is str
    assert without_event(str | None | Event) == str | None
    assert without_event(str | None) == str | None
    assert without_event(Event) is None

"""REST streams as in MLServer: V2 requests, and one V2 response per event."""

from typing import Any

from ..case import case, each
from ..http import Events
from ..outcome import Skip, expect, require, short
from ..server import UNKNOWN, Server, flat, model_path, only_output
from .generate import WORDS

ROUTES = ["infer_stream", "generate_stream"]


@each(ROUTES)
def events_are_responses(server: Server, route: str) -> None:
    texts = [str(flat(only_output(event).get("data"))[0]) for event in _stream(server, route).data()]
    expect("".join(texts).split(), WORDS.split(), "text of the events")
    require(len(texts) > 1, "five words came in one event")


@each(ROUTES)
def events_carry_the_id(server: Server, route: str) -> None:
    for event in _stream(server, route).data():
        expect(event.get("id"), "case-42", "`id`")


@each(ROUTES)
def events_name_the_model(server: Server, route: str) -> None:
    for event in _stream(server, route).data():
        expect(event.get("model_name"), server.model("stream").name, "`model_name`")


@each(ROUTES)
def outputs_are_described(server: Server, route: str) -> None:
    for event in _stream(server, route).data():
        output = only_output(event)
        described = (output.get("name"), output.get("datatype"), output.get("shape"))
        require(
            described[0] == "text_output" and described[1] == "BYTES",
            f"expected text_output BYTES: {described}",
        )
        require(isinstance(described[2], list), f"expected a list `shape`: {described}")


@each(ROUTES)
def stream_is_of_events(server: Server, route: str) -> None:
    kind = _stream(server, route).headers.get("content-type", "").partition(";")[0]
    expect(kind, "text/event-stream", "Content-Type")


@each(ROUTES)
def stream_comes_as_it_is_made(server: Server, route: str) -> None:
    events = _stream(server, route)
    times = [
        moment for line, moment in zip(events.lines, events.times, strict=True) if line.startswith(b"data:")
    ]
    require(len(times) > 1 and times[-1] - times[0] > 0.05, f"{len(times)} events came together")


@case
def generate_is_infer(server: Server) -> None:
    model = server.model("stream")
    _require_route(server, "infer_stream")
    answer = server.http.post(f"{model.path}/generate", _request("word"))
    expect(flat(only_output(answer.ok()).get("data")), ["word"], "`data` of generate with a V2 request")


@each(ROUTES)
def unknown_model_is_no_response(server: Server, route: str) -> None:
    _require_route(server, route)
    events = server.http.events(f"{model_path(UNKNOWN)}/{route}", _request(WORDS))
    require(events.status >= 400, f"expected an error status, got {events.status}: {short(events.lines)}")


@each(ROUTES)
def failure_after_a_response_is_seen(server: Server, route: str) -> None:
    """A truncated stream fails. Without an error event, clients cannot tell it from a complete one."""
    _require_route(server, route)
    events = server.http.events(f"{server.model('stream').path}/{route}", _request("one !fail")).data()
    require(
        len(events) == 2 and "error" in events[1], f"expected a response and an error, got {short(events)}"
    )


def _request(text: str) -> dict[str, Any]:
    tensor = {"name": "text_input", "datatype": "BYTES", "shape": [1], "data": [text]}
    return {"id": "case-42", "inputs": [tensor]}


def _stream(server: Server, route: str) -> Events:
    _require_route(server, route)
    events = server.http.events(f"{server.model('stream').path}/{route}", _request(WORDS))
    expect(events.status, 200, f"status of {route} ({short(events.lines)})")
    return events


def _require_route(server: Server, route: str) -> None:
    """Skip the case if the route is missing, or only accepts requests of the Triton generate extension."""
    path = f"{server.model('stream').path}/{route}"
    status = server.http.events(path, _request("word")).status
    if status in (404, 405, 501):
        raise Skip(f"the server has no {route}: {status}")
    if status != 200 and server.http.events(path, {"text_input": "word"}).status == 200:
        raise Skip(f"{route} takes Triton's requests only")

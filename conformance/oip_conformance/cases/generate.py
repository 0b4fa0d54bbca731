"""The generate extension of Triton: `generate` and `generate_stream`."""

from typing import Any

from ..case import case
from ..http import Answer, Events
from ..outcome import Skip, expect, require, short
from ..server import UNKNOWN, Server, model_path, require_error

WORDS = "one two three four five"


@case
def generate_answers_with_one_object(server: Server) -> None:
    answer = _generate(server, {"text_input": "word"})
    expect(answer.ok().get("text_output"), "word", "`text_output`")


@case
def generate_is_json(server: Server) -> None:
    answer = _generate(server, {"text_input": "word"})
    expect(answer.headers.get("content-type"), "application/json", "Content-Type")


@case
def generate_names_the_model(server: Server) -> None:
    document = _generate(server, {"text_input": "word"}).ok()
    expect(document.get("model_name"), server.model("stream").name, "`model_name`")


@case
def generate_takes_parameters(server: Server) -> None:
    body = {"text_input": "word", "parameters": {"stream": False, "temperature": 0, "a_text": "x"}}
    expect(_generate(server, body).ok().get("text_output"), "word", "`text_output`")


@case
def generate_takes_further_keys(server: Server) -> None:
    body = {"text_input": "word", "a_number": 3, "a_bool": True}
    expect(_generate(server, body).ok().get("text_output"), "word", "`text_output`")


@case
def generate_takes_a_version(server: Server) -> None:
    model = server.model("stream")
    _need_generate(server)
    answer = server.http.post(f"{model.path}/versions/{model.version}/generate", {"text_input": "word"})
    expect(answer.ok().get("text_output"), "word", "`text_output`")


@case
def generate_without_text_is_an_error(server: Server) -> None:
    require_error(_generate(server, {"parameters": {}}))


@case
def generate_of_parameters_that_are_no_object_is_an_error(server: Server) -> None:
    require_error(_generate(server, {"text_input": "word", "parameters": [1]}))


@case
def generate_of_a_failing_model_is_an_error(server: Server) -> None:
    require_error(_generate(server, {"text_input": "!fail"}))


@case
def stream_is_of_events(server: Server) -> None:
    kind = _stream(server, WORDS).headers.get("content-type")
    expect(kind, "text/event-stream; charset=utf-8", "Content-Type")


@case
def stream_has_a_response_in_each_event(server: Server) -> None:
    events = _stream(server, WORDS).data()
    expect(
        "".join(event.get("text_output", "") for event in events).split(), WORDS.split(), "text of the events"
    )
    require(len(events) > 1, "five words came in one event")


@case
def stream_events_name_the_model(server: Server) -> None:
    for event in _stream(server, WORDS).data():
        expect(event.get("model_name"), server.model("stream").name, "`model_name`")


@case
def stream_has_data_lines_alone(server: Server) -> None:
    others = [line for line in _stream(server, WORDS).lines if line and not line.startswith((b"data:", b":"))]
    require(not others, f"lines beside `data:`: {short(others)}")


@case
def stream_ends_without_a_mark(server: Server) -> None:
    _need_generate(server)
    lines = _stream(server, WORDS).lines
    require(b"data: [DONE]" not in lines, "the stream ends with [DONE], which is no response")


@case
def stream_comes_as_it_is_made(server: Server) -> None:
    times = [moment for line, moment in _with_times(_stream(server, WORDS)) if line.startswith(b"data:")]
    require(len(times) > 1, "five words came in one event")
    require(times[-1] - times[0] > 0.05, f"the events came together, within {times[-1] - times[0]:.3f} s")


@case
def stream_error_after_a_response_is_an_event(server: Server) -> None:
    events = _stream(server, "one !fail").data()
    require(len(events) == 2, f"expected a response and an error, got {short(events)}")
    require("text_output" in events[0], f"expected a response first, got {short(events[0])}")
    require(isinstance(events[1].get("error"), str), f"expected the string `error`, got {short(events[1])}")


@case
def stream_of_an_unknown_model_is_an_error(server: Server) -> None:
    _need_generate(server)
    answer = require_error(server.http.post(f"{model_path(UNKNOWN)}/generate_stream", {"text_input": "word"}))
    expect(answer.headers.get("content-type"), "application/json", "Content-Type")


@case
def stream_without_text_is_an_error(server: Server) -> None:
    _need_generate(server)
    answer = require_error(
        server.http.post(f"{server.model('stream').path}/generate_stream", {"parameters": {}})
    )
    expect(answer.headers.get("content-type"), "application/json", "Content-Type")


def _generate(server: Server, body: dict[str, Any]) -> Answer:
    _need_generate(server)
    return server.http.post(f"{server.model('stream').path}/generate", body)


def _stream(server: Server, text: str) -> Events:
    _need_generate(server)
    events = server.http.events(f"{server.model('stream').path}/generate_stream", {"text_input": text})
    expect(events.status, 200, f"status of generate_stream ({short(events.lines)})")
    return events


def _with_times(events: Events) -> list[tuple[bytes, float]]:
    return list(zip(events.lines, events.times, strict=True))


def _need_generate(server: Server) -> None:
    """Skip the case if the route is missing, or only accepts V2 requests as in MLServer."""
    path = f"{server.model('stream').path}/generate"
    answer = server.http.post(path, {"text_input": "word"})
    if answer.status in (404, 405, 501):
        raise Skip(f"the server has no generate: {answer.status}")
    if answer.status != 200:
        tensor = {"name": "text_input", "datatype": "BYTES", "shape": [1], "data": ["word"]}
        if server.http.post(path, {"inputs": [tensor]}).status == 200:
            raise Skip("generate takes only V2 requests, as in MLServer")

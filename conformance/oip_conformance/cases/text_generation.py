"""Text generation of the protocol: `text_input` at `generate` and `generate_stream`."""

from typing import Any

from ..case import case, each
from ..http import Answer, Events
from ..outcome import Skip, expect, require, short
from ..server import Model, Server, require_error

WORDS = "one two three four five"
REASONS = ("length", "eos_token", "stop_sequence")
DEFAULT_MAX_TOKENS = 20

INVALID: dict[str, Any] = {
    "text_that_is_no_string": {"text_input": 5},
    "parameters_that_are_no_object": {"text_input": "word", "parameters": [1]},
    "negative_temperature": {"text_input": "word", "parameters": {"temperature": -1}},
    "top_p_above_1": {"text_input": "word", "parameters": {"top_p": 1.5}},
    "negative_top_p": {"text_input": "word", "parameters": {"top_p": -0.5}},
    "max_tokens_of_0": {"text_input": "word", "parameters": {"max_tokens": 0}},
    "max_tokens_that_is_no_number": {"text_input": "word", "parameters": {"max_tokens": "many"}},
    "stop_of_numbers": {"text_input": "word", "parameters": {"stop": [1, 2]}},
    "details_that_are_no_flag": {"text_input": "word", "parameters": {"details": "yes"}},
}
"""Bodies with `text_input` that violate the schema of a request."""


@case
def text_is_generated(server: Server) -> None:
    expect(_generate(server, WORDS).ok().get("text_output"), WORDS, "`text_output`")


@case
def response_is_json(server: Server) -> None:
    expect(_generate(server, "word").headers.get("content-type"), "application/json", "Content-Type")


@case
def response_names_the_model(server: Server) -> None:
    expect(_generate(server, "word").ok().get("model_name"), _model(server).name, "`model_name`")


@case
def version_is_a_string(server: Server) -> None:
    version = _generate(server, "word").ok().get("model_version", "")
    require(isinstance(version, str), f"expected the string `model_version`, got {short(version)}")


@case
def version_in_the_path_is_taken(server: Server) -> None:
    model = _model(server)
    answer = server.http.post(f"{model.path}/versions/{model.version}/generate", {"text_input": "word"})
    expect(answer.ok().get("text_output"), "word", "`text_output`")


@case
def sampling_parameters_are_taken(server: Server) -> None:
    parameters = {"temperature": 0, "top_p": 0.9, "another": "x"}
    expect(_generate(server, "word", **parameters).ok().get("text_output"), "word", "`text_output`")


@case
def text_has_20_tokens_by_default(server: Server) -> None:
    words = [f"w{number}" for number in range(DEFAULT_MAX_TOKENS + 5)]
    text = str(_generate(server, " ".join(words)).ok().get("text_output"))
    expect(text.split(), words[:DEFAULT_MAX_TOKENS], "words of `text_output`")


@case
def max_tokens_end_the_text(server: Server) -> None:
    document = _generate(server, WORDS, max_tokens=2, details=True).ok()
    expect(document.get("text_output"), "one two", "`text_output`")
    expect(_details(document).get("finish_reason"), "length", "`finish_reason`")


@case
def stop_string_ends_the_text(server: Server) -> None:
    document = _generate(server, WORDS, stop=["never", "three"], details=True).ok()
    text = str(document.get("text_output"))
    require(text.startswith("one two") and "four" not in text, f"a text to `three`, got {short(text)}")
    expect(_details(document).get("finish_reason"), "stop_sequence", "`finish_reason`")


@case
def end_of_the_model_is_named(server: Server) -> None:
    document = _generate(server, "one two", details=True).ok()
    expect(_details(document).get("finish_reason"), "eos_token", "`finish_reason`")


@case
def details_have_each_token(server: Server) -> None:
    tokens = _details(_generate(server, "one two", details=True).ok()).get("logprobs")
    if not isinstance(tokens, list):
        require(False, f"expected the list `logprobs`, got {short(tokens)}")
        return
    for token in tokens:
        _check_token(token)
    text = "".join(token["text"] for token in tokens if not token["special"])
    expect(text, "one two", "text of the tokens that are not special")


@case
def details_are_absent_unless_asked_for(server: Server) -> None:
    require("details" not in _generate(server, "word").ok(), "details that the request does not ask for")


@each(INVALID)
def invalid_request_is_422(server: Server, name: str) -> None:
    answer = server.http.post(f"{_model(server).path}/generate", INVALID[name])
    expect(require_error(answer).status, 422, "status")


@each(INVALID)
def invalid_stream_is_422(server: Server, name: str) -> None:
    answer = server.http.post(f"{_model(server).path}/generate_stream", INVALID[name])
    expect(require_error(answer).status, 422, "status")


@case
def request_without_text_is_an_error(server: Server) -> None:
    require_error(server.http.post(f"{_model(server).path}/generate", {"parameters": {}}))


@case
def failure_of_the_model_is_424(server: Server) -> None:
    expect(require_error(_generate(server, "one !fail")).status, 424, "status")


@case
def failure_before_a_stream_is_424(server: Server) -> None:
    path = f"{_model(server).path}/generate_stream"
    answer = server.http.post(path, {"text_input": "!fail"})
    expect(answer.status, 424, "status")


@case
def failure_within_a_stream_is_an_event(server: Server) -> None:
    events = _stream(server, "one !fail").data()
    error = events[-1].get("error") if events else None
    require(
        isinstance(error, str) and bool(error), f"expected `error` in the last event, got {short(events)}"
    )


@case
def stream_is_of_events(server: Server) -> None:
    kind = str(_stream(server, WORDS).headers.get("content-type"))
    expect(kind.partition(";")[0], "text/event-stream", "Content-Type")


@case
def stream_has_the_text_in_parts(server: Server) -> None:
    events = _stream(server, WORDS).data()
    expect("".join(str(event.get("text_output")) for event in events), WORDS, "text of the events")
    require(len(events) > 1, "five words came in one event")


@case
def stream_events_name_the_model(server: Server) -> None:
    for event in _stream(server, WORDS).data():
        expect(event.get("model_name"), _model(server).name, "`model_name`")


@case
def stream_details_have_a_token_and_a_reason(server: Server) -> None:
    events = _stream(server, WORDS, max_tokens=2, details=True).data()
    detailed = [event for event in events if event.get("details") is not None]
    require(bool(detailed), f"no event has details: {short(events)}")
    for event in detailed:
        details = _details(event)
        _check_token(details.get("token"))
        reason = details.get("finish_reason")
        require(reason in REASONS, f"expected a `finish_reason` of {REASONS}, got {short(reason)}")
    expect(_details(detailed[-1])["finish_reason"], "length", "`finish_reason` of the last event")


def _model(server: Server) -> Model:
    """Return the model of the role. Skip the case if the server does not know `text_input`."""
    model = server.model("text")
    answer = server.http.post(f"{model.path}/generate", {"text_input": "word"})
    if answer.status in (400, 404, 405, 501):
        raise Skip(f"the server has no text generation: {answer.status}")
    return model


def _generate(server: Server, text: str, **parameters: Any) -> Answer:
    body = {"text_input": text, **({"parameters": parameters} if parameters else {})}
    return server.http.post(f"{_model(server).path}/generate", body)


def _stream(server: Server, text: str, **parameters: Any) -> Events:
    body = {"text_input": text, "parameters": parameters}
    events = server.http.events(f"{_model(server).path}/generate_stream", body)
    expect(events.status, 200, f"status of generate_stream ({short(events.lines)})")
    return events


def _details(document: dict[str, Any]) -> dict[str, Any]:
    details = document.get("details")
    require(isinstance(details, dict), f"expected the object `details`, got {short(document)}")
    return dict(document["details"])


def _check_token(token: Any) -> None:
    """Require the four fields of a token, with their types."""
    require(isinstance(token, dict), f"expected a token, got {short(token)}")
    require(
        type(token.get("id")) is int and token["id"] >= 0, f"expected the integer `id`, got {short(token)}"
    )
    require(isinstance(token.get("text"), str), f"expected the string `text`, got {short(token)}")
    require(type(token.get("logprob")) in (int, float), f"expected the number `logprob`, got {short(token)}")
    require(isinstance(token.get("special"), bool), f"expected the boolean `special`, got {short(token)}")

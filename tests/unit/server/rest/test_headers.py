"""Headers of a model's own in responses over HTTP."""

from inferstream.server.rest.headers import ResponseHeaders
from inferstream.types import InferenceResponse, Parameters


def response(**headers: str) -> InferenceResponse:
    return InferenceResponse(model_name="m", outputs=[], parameters=Parameters(headers=headers))


def test_a_model_may_set_headers_but_none_that_describe_the_message() -> None:
    own = ResponseHeaders(None)
    assert own(response(**{"X-Cost": "3", "Content-Length": "7", "Connection": "close"}), "m") == [
        (b"x-cost", b"3")
    ]


def test_a_header_that_would_break_the_response_is_left_out() -> None:
    own = ResponseHeaders(None)
    assert own(response(**{"x-a": "b\r\nc: d", "a b": "c", "x-b": "ok"}), "m") == [(b"x-b", b"ok")]
    assert own(InferenceResponse(model_name="m", outputs=[]), "m") == []

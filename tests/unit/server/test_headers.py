"""Headers that a model has set for its response, and those that HTTP can carry."""

from types import SimpleNamespace
from typing import Any

from inferstream.dataplane.admission import Admission
from inferstream.server.headers import ResponseHeaders
from inferstream.server.rest.messages import select_sendable
from inferstream.types import Headers, InferenceResponse, Parameters

model_headers = Admission.model_headers


def test_model_sets_lower_case_headers() -> None:
    assert [*model_headers(Parameters(headers={"X-Cost": 3}))] == [("x-cost", "3")]


def test_request_headers_are_not_echoed() -> None:
    assert not [*model_headers(Parameters(headers=Headers([(b"cookie", b"secret")])))]
    assert not [*model_headers(None)]


def own(response: InferenceResponse) -> list[tuple[bytes, bytes]]:
    headers = ResponseHeaders(str.encode, select_sendable)
    admission: Any = SimpleNamespace(pipeline=SimpleNamespace(marks=None), model="m")
    return headers.collect(admission, response.id, response.parameters)


def response(**headers: str) -> InferenceResponse:
    return InferenceResponse(model_name="m", outputs=[], parameters=Parameters(headers=headers))


def test_model_cannot_set_framing_headers() -> None:
    assert own(response(**{"X-Cost": "3", "Content-Length": "7", "Connection": "close"})) == [
        (b"x-cost", b"3")
    ]


def test_invalid_header_is_dropped() -> None:
    assert own(response(**{"x-a": "b\r\nc: d", "a b": "c", "x-b": "ok"})) == [(b"x-b", b"ok")]
    assert own(InferenceResponse(model_name="m", outputs=[])) == []

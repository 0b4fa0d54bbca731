"""Headers that a model has set for its response."""

from inferstream.server.headers import model_headers
from inferstream.types import Headers, Parameters


def test_a_model_sets_headers_with_names_in_lower_case() -> None:
    assert [*model_headers(Parameters(headers={"X-Cost": 3}))] == [("x-cost", "3")]


def test_headers_of_the_request_are_not_echoed() -> None:
    assert not [*model_headers(Parameters(headers=Headers([(b"cookie", b"secret")])))]
    assert not [*model_headers(None)]

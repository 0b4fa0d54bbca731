"""The refusals of keys, as the doors see them."""

from inferstream.errors import PermissionDenied, Refused
from inferstream.keys.errors import LimitExceeded, Unauthenticated
from inferstream.server.status import http_headers, status_of


def test_a_wrong_key_is_a_401_with_a_challenge():
    error = Unauthenticated()
    assert status_of(error) == (401, "UNAUTHENTICATED")
    assert http_headers(error) == [(b"www-authenticate", b"Bearer")]


def test_a_limit_is_a_429_that_says_when():
    error = LimitExceeded("requests_per_second", 10.0, 1_000_000_001)
    assert status_of(error) == status_of(error, "triton") == (429, "RESOURCE_EXHAUSTED")
    assert http_headers(error) == [(b"retry-after", b"2")]
    assert (error.limit, error.code.value) == ("requests_per_second", "limit_exceeded")
    assert error.message == "The limit requests_per_second of 10 is reached."


def test_a_caller_without_a_right_is_refused_and_a_call_by_a_middleware_is_not():
    refusals = [
        Unauthenticated(),
        PermissionDenied("no"),
        LimitExceeded("in_flight", 0, None),
        Refused("no", 401),
    ]
    assert [error.refuses_caller for error in refusals] == [True, True, True, False]


def test_a_limit_that_does_not_pass_names_no_time():
    assert http_headers(LimitExceeded("in_flight", 0, None)) == []

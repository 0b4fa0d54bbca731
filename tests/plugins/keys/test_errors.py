"""The refusals of keys, as the doors see them."""

from inferstream.errors import PermissionDenied, Refused
from inferstream.ext.http import error_headers as http_headers
from inferstream.ext.http import status_of
from inferstream.plugins.keys.errors import LimitExceeded, Unauthenticated


def test_wrong_key_is_401_with_challenge():
    error = Unauthenticated()
    assert status_of(error) == (401, "UNAUTHENTICATED")
    assert http_headers(error) == [(b"www-authenticate", b"Bearer")]


def test_limit_error_is_429_with_retry_after():
    error = LimitExceeded("requests_per_second", 10.0, 1_000_000_001)
    assert status_of(error) == status_of(error, "triton") == (429, "RESOURCE_EXHAUSTED")
    assert http_headers(error) == [(b"retry-after", b"2")]
    assert (error.limit, error.code.value) == ("requests_per_second", "limit_exceeded")
    assert error.message == "The limit requests_per_second of 10 is reached."


def test_caller_without_scope_is_refused_but_not_middleware_calls():
    refusals = [
        Unauthenticated(),
        PermissionDenied("no"),
        LimitExceeded("in_flight", 0, None),
        Refused("no", 401),
    ]
    assert [error.refuses_caller for error in refusals] == [True, True, True, False]


def test_permanent_limit_has_no_retry_after():
    assert http_headers(LimitExceeded("in_flight", 0, None)) == []

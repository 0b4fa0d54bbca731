"""The table of statuses, and what is derived of it."""

import pytest

from inferstream.statuses import HTTP_OF_CODE, HTTP_OF_GRPC, TABLE, Code, find_code


@pytest.mark.parametrize("code", Code)
def test_stream_events_have_the_status_of_their_code(code: Code) -> None:
    assert HTTP_OF_CODE[code.value] == TABLE[code].http


@pytest.mark.parametrize(
    ("name", "http"),
    [
        ("INVALID_ARGUMENT", 400),
        ("FAILED_PRECONDITION", 400),
        ("OUT_OF_RANGE", 400),
        ("UNAUTHENTICATED", 401),
        ("PERMISSION_DENIED", 403),
        ("NOT_FOUND", 404),
        ("ALREADY_EXISTS", 409),
        ("ABORTED", 409),
        ("RESOURCE_EXHAUSTED", 429),
        ("CANCELLED", 499),
        ("INTERNAL", 500),
        ("UNIMPLEMENTED", 501),
        ("UNAVAILABLE", 503),
        ("DEADLINE_EXCEEDED", 504),
    ],
)
def test_every_grpc_status_has_an_http_status(name: str, http: int) -> None:
    assert HTTP_OF_GRPC[name] == http


def test_http_status_maps_back_to_itself() -> None:
    known = {401, 403, 404, 413, 415, 429, 501, 503, 504}
    assert {TABLE[find_code(status)].http for status in known} == known

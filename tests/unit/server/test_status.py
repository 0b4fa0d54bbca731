"""Which status an error has."""

import pytest

from inferstream.errors import (
    InferstreamError,
    InvalidModelURI,
    ModelError,
    ModelLoadFailed,
    ModelNotFound,
    ModelNotReady,
    Overloaded,
    Refused,
)
from inferstream.plugins.keys.errors import LimitExceeded
from inferstream.server.status import http_headers, retry_after, status_of


def test_unauthenticated_and_forbidden_are_distinct() -> None:
    assert status_of(ModelError("who are you?", 401)) == (401, "UNAUTHENTICATED")
    assert status_of(ModelError("not you", 403)) == (403, "PERMISSION_DENIED")
    assert ModelError("who are you?", 401).code.value == "unauthenticated"


def test_model_status_precedes_the_profile_status() -> None:
    assert status_of(ModelError("no", 418), "mlserver").http == 418
    assert status_of(ModelLoadFailed("no", 418)) == (418, "INVALID_ARGUMENT")
    assert status_of(ModelLoadFailed("no")) == (500, "INTERNAL")
    assert status_of(ModelNotFound("m")) == (404, "NOT_FOUND")
    assert status_of(InvalidModelURI("m")).http == 422
    assert status_of(ModelNotReady("m")) == (503, "UNAVAILABLE")
    assert status_of(ModelNotReady("m"), "mlserver") == (400, "INVALID_ARGUMENT")


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (Overloaded("full"), 1),
        (Overloaded("full", 600), 60),
        (LimitExceeded("tokens_per_minute", 20, 64_500_000_000), 60),
        (LimitExceeded("tokens_per_day", 20, 40_000 * 10**9), 60),
        (LimitExceeded("tokens_per_day", 0, None), None),
        (Refused("later", 503, 3600), 60),
        (Refused("later", 429, 7), 7),
    ],
)
def test_retry_after_stays_within_the_openai_client_limit(
    error: InferstreamError, seconds: int | None
) -> None:
    assert retry_after(error) == seconds
    assert dict(http_headers(error)).get(b"retry-after") == (None if seconds is None else b"%d" % seconds)

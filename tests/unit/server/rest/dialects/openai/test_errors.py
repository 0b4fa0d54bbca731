"""Errors as OpenAI's clients read them."""

import pytest

from inferstream.errors import InferstreamError, Overloaded, PermissionDenied
from inferstream.keys.errors import LimitExceeded, Unauthenticated
from inferstream.server.rest.dialects.openai.errors import error_object


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (Overloaded("full"), "rate_limit_error", "rate_limit_exceeded"),
        (LimitExceeded("requests_per_second", 1, None), "rate_limit_error", "rate_limit_exceeded"),
        (Unauthenticated(), "authentication_error", None),
        (PermissionDenied("no"), "permission_error", None),
    ],
)
def test_refusals_have_types_that_clients_know(error: InferstreamError, kind: str, code: str | None) -> None:
    shown = error_object(error)["error"]
    assert (shown["type"], shown["code"], shown["message"]) == (kind, code, error.message)

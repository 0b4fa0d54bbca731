"""Errors as OpenAI's clients read them."""

import pytest

from inferstream.errors import Code, InferstreamError, Overloaded, PermissionDenied, Refused
from inferstream.plugins.text.openai.errors import error_object


def limited() -> Refused:
    """The error of a client that has reached a limit of its key."""
    error = Refused("The limit requests_per_second of 1 is reached.", 429)
    error.code = Code.LIMIT_EXCEEDED
    return error


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (Overloaded("full"), "rate_limit_error", "rate_limit_exceeded"),
        (limited(), "rate_limit_error", "rate_limit_exceeded"),
        (Refused("The request needs a valid key.", 401), "authentication_error", None),
        (PermissionDenied("no"), "permission_error", None),
    ],
)
def test_refusals_have_known_error_types(error: InferstreamError, kind: str, code: str | None) -> None:
    shown = error_object(error)["error"]
    assert (shown["type"], shown["code"], shown["message"]) == (kind, code, error.message)

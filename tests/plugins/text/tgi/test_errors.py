"""Errors as TGI's clients read them."""

import pytest

from inferstream.errors import (
    DeadlineExceeded,
    Draining,
    InferenceFailed,
    InferstreamError,
    InvalidRequest,
    ModelError,
    ModelNotFound,
    ModelNotReady,
    Overloaded,
    Unsupported,
    WorkerLost,
)
from inferstream.plugins.text.tgi.errors import error_object, error_status


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (InvalidRequest("wrong"), 422, "validation"),
        (Unsupported("cannot"), 422, "validation"),
        (ModelNotFound("m"), 404, "validation"),
        (Overloaded("full"), 429, "overloaded"),
        (InferenceFailed("broke"), 424, "generation"),
        (WorkerLost("gone"), 503, "generation"),
        (DeadlineExceeded(), 504, "generation"),
        (ModelNotReady("m"), 503, "unavailable"),
        (Draining(), 503, "unavailable"),
        (ModelError("tea", status_code=418), 418, "validation"),
        (ModelError("tea", status_code=500), 500, "generation"),
    ],
)
def test_errors_have_tgi_status_and_type(error: InferstreamError, status: int, kind: str) -> None:
    assert error_status(error) == status
    found = error_object(error)
    assert (found["error"], found["error_type"]) == (error.message, kind)


def test_invalid_field_location_is_a_path() -> None:
    fault = {"loc": ["parameters.grammar.type", 0], "msg": "is wrong"}
    assert error_object(InvalidRequest("wrong", [fault]))["detail"] == [
        {"type": "value_error", "loc": ["body", "parameters", "grammar", "type", 0], "msg": "is wrong"}
    ]
    assert error_object(InvalidRequest("wrong"))["detail"][0]["loc"] == ["body"]

"""Which status an error has."""

from inferstream.errors import InvalidModelURI, ModelError, ModelLoadFailed, ModelNotFound, ModelNotReady
from inferstream.server.status import status_of


def test_a_client_that_is_not_known_is_not_one_without_permission() -> None:
    assert status_of(ModelError("who are you?", 401)) == (401, "UNAUTHENTICATED")
    assert status_of(ModelError("not you", 403)) == (403, "PERMISSION_DENIED")
    assert ModelError("who are you?", 401).code.value == "unauthenticated"


def test_a_models_own_status_goes_first_and_the_profile_decides_the_others() -> None:
    assert status_of(ModelError("no", 418), "mlserver").http == 418
    assert status_of(ModelLoadFailed("no", 418)) == (418, "INVALID_ARGUMENT")
    assert status_of(ModelLoadFailed("no")) == (500, "INTERNAL")
    assert status_of(ModelNotFound("m")) == (404, "NOT_FOUND")
    assert status_of(InvalidModelURI("m")).http == 422
    assert status_of(ModelNotReady("m")) == (503, "UNAVAILABLE")
    assert status_of(ModelNotReady("m"), "mlserver") == (400, "INVALID_ARGUMENT")

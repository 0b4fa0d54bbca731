"""What is open on loopback and beyond, by operation and not by path."""

import pytest

from inferstream.dataplane.access import CLOSED, Access, Action
from inferstream.dataplane.caller import Caller
from inferstream.errors import PermissionDenied
from inferstream.settings import Settings
from inferstream.types import Headers

CALLER = Caller(Headers(()), "v2")


@pytest.mark.parametrize(
    ("host", "allowed", "opened"),
    [
        ("127.0.0.1", False, True),
        ("localhost", False, True),
        ("::1", False, True),
        ("0.0.0.0", False, False),
        ("example.org", False, False),
        ("0.0.0.0", True, True),
    ],
)
def test_the_repository_and_the_access_log_are_closed_beyond_loopback(
    host: str, allowed: bool, opened: bool
) -> None:
    access = Access(Settings(host=host, allow_open_repository=allowed))
    assert access.repository_open is opened
    for action in Action:
        if opened or action not in CLOSED:
            access.check(action, CALLER)
            continue
        with pytest.raises(PermissionDenied, match=f"{CLOSED[action]} is closed .* allow_open_repository"):
            access.check(action, CALLER, "m")
    assert set(CLOSED) == {Action.REPOSITORY_READ, Action.REPOSITORY_WRITE, Action.ACCESS_LOG}

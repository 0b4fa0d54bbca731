"""What a transport tells of its client."""

from inferstream.dataplane.caller import Caller
from inferstream.types import Headers


class Certified:
    peer = "ipv4:10.0.0.1:5000"
    identities = ("a.example.org",)


def test_client_is_taken_from_transport() -> None:
    caller = Caller(Headers([(b"x-a", b"1")], None, Certified()), "v2")
    assert (caller.peer, caller.headers["x-a"]) == ("ipv4:10.0.0.1:5000", "1")
    assert caller.headers.identities == ("a.example.org",)
    assert (caller.principal, caller.deadline, caller.priority, caller.pace, caller.task) == (
        None,
        None,
        0,
        0.0,
        None,
    )


def test_client_is_unknown_without_transport_support() -> None:
    caller = Caller(Headers(()), "kafka")
    assert (caller.peer, caller.headers.identities) == ("", ())


def test_connection_request_has_its_own_deadline() -> None:
    caller = Caller(Headers(()), "websocket", priority=3, pace=0.5, principal="ann")
    once = caller.until(7.0)
    assert (once.deadline, caller.deadline) == (7.0, None)
    for name in ("headers", "dialect", "task", "priority", "pace", "principal"):
        assert getattr(once, name) == getattr(caller, name)

"""What a transport tells of its client."""

from inferstream.dataplane.caller import Caller
from inferstream.types import Headers


class Certified:
    peer = "ipv4:10.0.0.1:5000"
    identities = ("a.example.org",)


def test_the_client_of_a_transport_that_knows_it() -> None:
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


def test_the_client_of_a_transport_that_knows_none() -> None:
    caller = Caller(Headers(()), "kafka")
    assert (caller.peer, caller.headers.identities) == ("", ())


def test_a_request_of_a_connection_has_a_deadline_of_its_own_and_all_else_of_it() -> None:
    caller = Caller(Headers(()), "websocket", priority=3, pace=0.5, principal="ann")
    once = caller.until(7.0)
    assert (once.deadline, caller.deadline) == (7.0, None)
    for name in ("headers", "dialect", "task", "priority", "pace", "principal"):
        assert getattr(once, name) == getattr(caller, name)

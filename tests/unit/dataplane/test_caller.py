"""What a transport tells of its client."""

import pytest

from inferstream import App
from inferstream.dataplane.caller import Caller, Picked
from inferstream.server.application import Application
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


SAID = [
    (b"x-llm-d-inference-objective", b"chat"),
    (b"x-gateway-inference-fairness-id", b"team-a"),
    (b"x-llm-d-slo-ttft-ms", b"250"),
]


class Origin:
    identities = ()

    def __init__(self, peer: str) -> None:
        self.peer = peer


def test_the_new_names_and_the_old_ones_are_read() -> None:
    assert Picked.of(Headers(SAID)) == Picked("chat", "team-a", 0.25)
    assert Picked.of(Headers([(b"x-gateway-inference-objective", b"old")])) == Picked("old")


@pytest.mark.parametrize("value", [b"", b"soon", b"nan", b"inf", b"-1", b"0"])
def test_a_time_that_is_none_is_left_out(value: bytes) -> None:
    assert Picked.of(Headers([(b"x-llm-d-slo-tpot-ms", value)])) is None


@pytest.mark.parametrize(
    ("peer", "believed"), [("ipv4:10.1.2.3:5000", True), ("ipv4:10.2.0.1:5000", False), ("unix:", False)]
)
async def test_only_trusted_proxies_are_believed(peer: str, believed: bool) -> None:
    app = App()

    @app.model
    def half(n: int) -> int:
        return n // 2

    async with Application(app, trusted_proxies=["10.1.0.0/16"]) as application:
        caller = Caller(Headers(SAID, None, Origin(peer)), "http")
        admission = application.dataplane.admit("half", None, caller)
        assert (admission.caller.picked is not None) is believed

"""What a gateway's picker says of a request, and who is believed."""

import pytest

from inferstream import App
from inferstream.dataplane.caller import Caller, Picked
from inferstream.server.application import Application
from inferstream.types import Headers

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

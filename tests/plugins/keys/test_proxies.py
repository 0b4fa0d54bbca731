"""Who is behind a proxy."""

import pytest

from inferstream import App, Application
from inferstream.ext.calls import Caller
from inferstream.plugins.keys.proxies import Picked, Proxies
from inferstream.types import Headers


class From:
    identities = ()

    def __init__(self, peer: str) -> None:
        self.peer = peer


NEAR, FAR = "ipv4:10.0.0.1:5000", "ipv4:203.0.113.9:6000"


@pytest.mark.parametrize(
    ("peer", "headers", "client"),
    [
        (FAR, {"x-forwarded-for": "198.51.100.1"}, FAR),
        (NEAR, {}, NEAR),
        (NEAR, {"x-forwarded-for": "198.51.100.1"}, "198.51.100.1"),
        (NEAR, {"x-forwarded-for": "1.1.1.1, 198.51.100.1, 10.0.0.2"}, "198.51.100.1"),
        (NEAR, {"x-forwarded-for": "10.0.0.3, 10.0.0.2"}, "10.0.0.3"),
        (NEAR, {"x-forwarded-for": "unknown, 10.0.0.2"}, "unknown"),
        (NEAR, {"forwarded": "for=198.51.100.1;proto=https"}, "198.51.100.1"),
        (NEAR, {"forwarded": 'for=1.1.1.1, proto=http;For="[2001:db8::17]:47"'}, "2001:db8::17"),
        (NEAR, {"forwarded": "for=198.51.100.7:80", "x-forwarded-for": "1.1.1.1"}, "198.51.100.7"),
        (NEAR, {"forwarded": "by=10.0.0.2"}, "unknown"),
        ("ipv6:[fd00::1]:7000", {"x-forwarded-for": "2001:db8::1"}, "2001:db8::1"),
        ("unix:/run/s", {"x-forwarded-for": "198.51.100.1"}, "unix:/run/s"),
        ("", {"x-forwarded-for": "198.51.100.1"}, ""),
    ],
)
def test_client_is_last_untrusted_address(peer: str, headers: dict[str, str], client: str) -> None:
    proxies = Proxies(["10.0.0.0/8", "fd00::1"])
    assert proxies.find_client(Headers(headers.items(), None, From(peer))) == client


def test_headers_are_ignored_without_trusted_proxies() -> None:
    proxies = Proxies([])
    assert proxies.find_client(Headers([("forwarded", "for=1.1.1.1")], None, From(NEAR))) == NEAR
    assert not proxies.is_trusted(NEAR)


@pytest.mark.parametrize(
    ("peer", "trusted"),
    [
        ("ipv4:10.0.0.1:5000", True),
        ("ipv4:10.0.1.1:5000", False),
        ("ipv6:[fd00::1]:5000", True),
        ("ipv6:[fd01::1]:5000", False),
        ("ipv6:[::ffff:10.0.0.1]:5000", True),
        ("ipv6:[::ffff:10.0.1.1]:5000", False),
        ("unix:", False),
        ("", False),
    ],
)
def test_proxy_is_matched_only_by_address(peer: str, trusted: bool) -> None:
    assert Proxies(["10.0.0.0/24", "fd00::1"]).is_trusted(peer) is trusted


SAID = [
    (b"x-llm-d-inference-objective", b"chat"),
    (b"x-gateway-inference-fairness-id", b"team-a"),
    (b"x-llm-d-slo-ttft-ms", b"250"),
]


def test_new_and_old_names_are_read() -> None:
    assert Picked.of(Headers(SAID)) == Picked("chat", "team-a", 0.25)
    assert Picked.of(Headers([(b"x-gateway-inference-objective", b"old")])) == Picked("old")


@pytest.mark.parametrize("value", [b"", b"soon", b"nan", b"inf", b"-1", b"0"])
def test_invalid_time_is_dropped(value: bytes) -> None:
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
        caller = Caller(Headers(SAID, None, From(peer)), "http")
        admission = application.models.admit("half", None, caller)
        assert (admission.caller.picked is not None) is believed

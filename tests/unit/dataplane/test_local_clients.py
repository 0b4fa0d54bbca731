import pytest

from inferstream.dataplane.local_clients import is_local, is_local_program, is_loopback_peer


@pytest.mark.parametrize(
    ("peer", "local"),
    [
        ("ipv4:127.0.0.1:4711", True),
        ("ipv6:[::1]:4711", True),
        ("ipv6:[::ffff:127.0.0.1]:4711", True),
        ("ipv6:%5B::1%5D:4711", False),  # grpcio escapes no address; anything else is not an address
        ("ipv4:10.0.0.7:4711", False),
        ("ipv6:[fe80::1%eth0]:4711", False),
        ("unix:/tmp/socket", False),
        ("", False),
        ("ipv4:localhost:80", False),
    ],
)
def test_only_loopback_addresses_are_local(peer: str, local: bool) -> None:
    assert is_loopback_peer(peer) is local
    assert is_local(peer, [(b"user-agent", b"agent")]) is local


def test_istio_sidecar_is_not_local() -> None:
    assert is_loopback_peer("ipv4:127.0.0.6:4711")
    assert not is_local("ipv4:127.0.0.6:4711", [])
    assert not is_local("ipv6:[::ffff:127.0.0.6]:4711", [])


@pytest.mark.parametrize(
    "header",
    [
        "Forwarded",
        "via",
        b"X-Forwarded-For",
        "x-forwarded-proto",
        "x-envoy-expected-rq-timeout-ms",
        b"l5d-client-id",
    ],
)
def test_forwarded_request_is_not_local(header: str | bytes) -> None:
    assert not is_local("ipv4:127.0.0.1:4711", [("host", "a"), (header, "10.0.0.7")])


@pytest.mark.parametrize("header", ["Origin", b"sec-fetch-site"])
def test_request_of_web_page_is_not_from_a_program(header: str | bytes) -> None:
    assert is_local("ipv4:127.0.0.1:4711", [(header, "http://rebound.example")])
    assert not is_local_program("ipv4:127.0.0.1:4711", [(header, "http://rebound.example")])
    assert is_local_program("ipv4:127.0.0.1:4711", [("user-agent", "agent")])

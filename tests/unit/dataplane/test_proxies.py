"""Which peers are trusted proxies."""

import pytest

from inferstream.dataplane.proxies import Proxies


@pytest.mark.parametrize(
    ("peer", "trusted"),
    [
        ("ipv4:10.0.0.1:5000", True),
        ("ipv4:10.0.1.1:5000", False),
        ("ipv6:[fd00::1]:5000", True),
        ("ipv6:[fd01::1]:5000", False),
        ("unix:", False),
        ("", False),
    ],
)
def test_a_peer_is_a_proxy_by_its_address_alone(peer: str, trusted: bool) -> None:
    assert Proxies(["10.0.0.0/24", "fd00::1"]).is_trusted(peer) is trusted

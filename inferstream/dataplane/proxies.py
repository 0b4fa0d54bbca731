"""The address of a client that may be behind proxies."""

import re
from collections.abc import Mapping, Sequence
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Self

from inferstream import Settings
from inferstream.plugins.keys.settings import KeysSettings

from ..types import Headers

_FOR = re.compile(r'(?:^|;)\s*for="?([^";]+)', re.IGNORECASE)


class Proxies:
    """Addresses and networks whose headers name the client. Headers of others are ignored."""

    def __init__(self, networks: Sequence[str], objectives: Mapping[str, int] | None = None) -> None:
        self._networks = [*map(ip_network, networks)]
        self.objectives = objectives or {}
        """Priorities of the objectives that they name."""

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The proxies that the settings trust."""
        keys = settings.section(KeysSettings)
        return cls(keys.trusted_proxies, keys.objectives)

    def __bool__(self) -> bool:
        return bool(self._networks)

    def is_trusted(self, peer: str) -> bool:
        """Whether a peer, such as `ipv4:10.0.0.1:5000`, or an address is such a proxy."""
        try:
            address = ip_address(_address(peer))
        except ValueError:
            return False
        if isinstance(address, IPv6Address):  # a socket for both versions shows IPv4 so
            address = address.ipv4_mapped or address
        return any(address in network for network in self._networks)

    def client(self, headers: Headers) -> str:
        """The last address in `Forwarded` or `X-Forwarded-For` that is no trusted proxy; else the peer."""
        peer = headers.peer or ""
        if not self._networks or not self.is_trusted(peer):
            return peer
        for hop in reversed(_hops(headers)):
            if not self.is_trusted(peer):
                break
            peer = hop
        return peer


def _hops(headers: Headers) -> list[str]:
    if (forwarded := headers.get("forwarded")) is not None:
        matches = [_FOR.search(hop) for hop in forwarded.split(",")]
        return [_address(match[1]) if match else "unknown" for match in matches]
    return [_address(hop) for hop in headers.get("x-forwarded-for", "").split(",") if hop.strip()]


def _address(peer: str) -> str:
    """The address in a peer or a hop, without transport and port."""
    address = re.sub(r"^ipv[46]:", "", peer.strip())
    if address.startswith("["):
        return address[1:].partition("]")[0]
    return address.partition(":")[0] if address.count(":") == 1 else address

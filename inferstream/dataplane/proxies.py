"""Proxies whose headers are believed."""

import re
from collections.abc import Sequence
from ipaddress import ip_address, ip_network


class Proxies:
    """Addresses and networks of proxies. Headers of others are ignored."""

    def __init__(self, networks: Sequence[str]) -> None:
        self._networks = [*map(ip_network, networks)]

    def is_trusted(self, peer: str) -> bool:
        """Whether a peer, such as `ipv4:10.0.0.1:5000`, is such a proxy."""
        address = re.sub(r"^ipv[46]:|:\d+$", "", peer).strip("[]")
        try:
            return any(ip_address(address) in network for network in self._networks)
        except ValueError:  # a socket of Unix, or unknown
            return False

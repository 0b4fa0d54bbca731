"""Client addresses behind trusted proxies, and request attributes that trusted gateways set."""

import re
from collections.abc import Mapping, Sequence
from ipaddress import IPv6Address, ip_address, ip_network
from itertools import repeat
from math import isfinite
from operator import contains
from typing import NamedTuple, Self

from inferstream import Settings
from inferstream.ext.calls import Caller
from inferstream.types import Headers

from .settings import KeysSettings

_FOR = re.compile(r'(?:^|;)\s*for="?([^";]+)', re.IGNORECASE)


class Picked(NamedTuple):
    """Headers of the Gateway API Inference Extension and of llm-d, from a trusted proxy."""

    objective: str | None = None
    """The name of the InferenceObjective. The setting `objectives` maps it to a priority."""
    fairness_id: str | None = None
    """The name under which fair queueing counts the request, instead of the principal's name."""
    first_item_within: float | None = None
    """The target time to first token in seconds."""
    between_items: float | None = None
    """The target time between tokens in seconds."""
    priority: int = 0
    """The priority of the objective, or 0 if the settings do not list it."""

    @classmethod
    def of(cls, headers: Headers) -> Self | None:
        """Parse the headers by their new or old names. Returns None if none is present."""
        said = cls(
            headers.get("x-llm-d-inference-objective") or headers.get("x-gateway-inference-objective"),
            headers.get("x-llm-d-inference-fairness-id") or headers.get("x-gateway-inference-fairness-id"),
            _seconds(headers.get("x-llm-d-slo-ttft-ms")),
            _seconds(headers.get("x-llm-d-slo-tpot-ms")),
        )
        return said if any(said) else None


def _seconds(milliseconds: str | None) -> float | None:
    """Convert milliseconds in a header to seconds. Values that are not positive numbers are ignored."""
    try:
        seconds = float(milliseconds or "") / 1000
    except ValueError:
        return None
    return seconds if isfinite(seconds) and seconds > 0 else None


class Proxies:
    """Trusted proxy addresses and networks. The headers of other peers are ignored."""

    def __init__(self, networks: Sequence[str], objectives: Mapping[str, int] | None = None) -> None:
        self._networks = [*map(ip_network, networks)]
        self.objectives = objectives or {}
        """Priorities by the name of the objective."""

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return the proxies that the settings trust."""
        keys = settings.section(KeysSettings)
        return cls(keys.trusted_proxies, keys.objectives)

    def __bool__(self) -> bool:
        return bool(self._networks)

    def is_trusted(self, peer: str) -> bool:
        """Whether an address, or a peer such as `ipv4:10.0.0.1:5000`, is a trusted proxy."""
        try:
            address = ip_address(_address(peer))
        except ValueError:
            return False
        if isinstance(address, IPv6Address):  # Dual-stack sockets report IPv4 addresses in this form.
            address = address.ipv4_mapped or address
        return any(
            map(contains, self._networks, repeat(address))
        )  # map, not a generator: this runs on every request.

    def read(self, caller: Caller) -> None:
        """Store the attributes that a trusted gateway set, and apply the priority of its objective."""
        if self.is_trusted(caller.peer):
            picked = caller.picked = Picked.of(caller.headers)
            if picked and picked.objective and (granted := self.objectives.get(picked.objective)):
                caller.priority = granted
                caller.picked = picked._replace(priority=granted)

    def find_client(self, headers: Headers) -> str:
        """Return the client's address.

        This is the last address in `Forwarded` or `X-Forwarded-For` that is not a trusted proxy, or the peer
        if it is not trusted.
        """
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
    """Return the address in a peer or hop, without transport and port."""
    address = re.sub(r"^ipv[46]:", "", peer.strip())
    if address.startswith("["):
        return address[1:].partition("]")[0]
    return address.partition(":")[0] if address.count(":") == 1 else address

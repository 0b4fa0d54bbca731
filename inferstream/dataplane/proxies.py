"""The address of a client that may be behind proxies, and what a trusted gateway says of its request."""

import re
from collections.abc import Mapping, Sequence
from ipaddress import IPv6Address, ip_address, ip_network
from itertools import repeat
from math import isfinite
from operator import contains
from typing import NamedTuple, Self

from inferstream import Settings
from inferstream.ext.calls import Caller
from inferstream.plugins.keys.settings import KeysSettings

from ..types import Headers

_FOR = re.compile(r'(?:^|;)\s*for="?([^";]+)', re.IGNORECASE)


class Picked(NamedTuple):
    """Headers of the Gateway API Inference Extension and llm-d, of a trusted proxy."""

    objective: str | None = None
    """The name of the InferenceObjective, whose priority the setting `objectives` has here."""
    fairness_id: str | None = None
    """Whose request it is, for the shares of a model: it takes the place of the principal's name there."""
    first_item_within: float | None = None
    """Seconds to the first token that are wanted."""
    between_items: float | None = None
    """Seconds from one token to the next that are wanted."""
    priority: int = 0
    """That of its objective; 0 where the settings name none."""

    @classmethod
    def of(cls, headers: Headers) -> Self | None:
        """The headers of a picker, by their new or old names; None without any."""
        said = cls(
            headers.get("x-llm-d-inference-objective") or headers.get("x-gateway-inference-objective"),
            headers.get("x-llm-d-inference-fairness-id") or headers.get("x-gateway-inference-fairness-id"),
            _seconds(headers.get("x-llm-d-slo-ttft-ms")),
            _seconds(headers.get("x-llm-d-slo-tpot-ms")),
        )
        return said if any(said) else None


def _seconds(milliseconds: str | None) -> float | None:
    """The value of a header; None for one that is no positive number, because the picker has accepted it."""
    try:
        seconds = float(milliseconds or "") / 1000
    except ValueError:
        return None
    return seconds if isfinite(seconds) and seconds > 0 else None


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
        return any(
            map(contains, self._networks, repeat(address))
        )  # no generator, which each request would enter

    def read(self, caller: Caller) -> None:
        """Keep with a caller what a trusted gateway says of the request, and give it the priority of its objective."""
        if self.is_trusted(caller.peer):
            picked = caller.picked = Picked.of(caller.headers)
            if picked and picked.objective and (granted := self.objectives.get(picked.objective)):
                caller.priority = granted
                caller.picked = picked._replace(priority=granted)

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

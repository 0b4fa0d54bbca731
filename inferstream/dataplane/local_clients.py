"""Detection of clients on the same machine, or in the same pod."""

from collections.abc import Iterable
from ipaddress import IPv6Address, ip_address

FORWARDED = ("forwarded", "via", "x-forwarded-", "x-envoy-", "l5d-")
"""The start of the headers that reverse proxies and service meshes add."""

BROWSER = ("origin", "sec-fetch-")
"""The start of the headers that browsers add to requests of web pages."""

SIDECAR = "127.0.0.6"
"""The address from which Istio connects to a pod on behalf of remote clients."""


def is_loopback_peer(peer: str) -> bool:
    """Whether an address in gRPC notation is a loopback address."""
    host = _host(peer)
    return host is not None and ip_address(host).is_loopback


def is_local(peer: str, headers: Iterable[tuple[str | bytes, object]]) -> bool:
    """Whether a request comes from this machine and no proxy forwarded it.

    `peer` is an address in gRPC notation. A proxy on this machine that adds no header cannot be detected.
    """
    return is_loopback_peer(peer) and _host(peer) != SIDECAR and not is_forwarded(headers)


def is_local_program(peer: str, headers: Iterable[tuple[str | bytes, object]]) -> bool:
    """Whether a request comes from a program on this machine, and not from a web page in its browser.

    A page whose domain resolves to this machine (DNS rebinding) has the same origin as the server.
    """
    headers = [*headers]
    return is_local(peer, headers) and not _has_header(headers, BROWSER)


def is_forwarded(headers: Iterable[tuple[str | bytes, object]]) -> bool:
    """Whether one of the headers shows that a proxy forwarded the request."""
    return _has_header(headers, FORWARDED)


def _has_header(headers: Iterable[tuple[str | bytes, object]], beginnings: tuple[str, ...]) -> bool:
    names = (name if isinstance(name, str) else name.decode("latin-1") for name, _ in headers)
    return any(name.lower().startswith(beginnings) for name in names)


def _host(peer: str) -> str | None:
    """The IP address of a peer; IPv4 also if the socket is IPv6. None if it has none."""
    kind, _, address = peer.partition(":")
    if kind not in ("ipv4", "ipv6"):
        return None
    try:
        host = ip_address(address.rpartition(":")[0].strip("[]").partition("%")[0])
    except ValueError:
        return None
    mapped = host.ipv4_mapped if isinstance(host, IPv6Address) else None
    return str(host if mapped is None else mapped)

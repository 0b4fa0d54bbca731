"""Restricts the web pages that may use the server, and the names under which they reach it."""

import re
from collections.abc import Iterable

from ...dataplane.access import is_loopback
from ...errors import PermissionDenied
from ...settings import Settings
from ...settings.cors import CORSSettings

FOREIGN = (b"cross-site", b"same-site")
"""Values of Sec-Fetch-Site for requests that pages of other origins make."""


def gets_run_models(settings: Settings) -> bool:
    """Whether a GET may run a model: by default only where `check_page` finds every foreign page.

    To a server beyond loopback browsers send Sec-Fetch-Site over TLS only, and many a GET has no Origin.
    """
    if settings.get_streams is not None:
        return settings.get_streams
    encrypted = (settings.custom_rest_server_settings or {}).get("ssl_certfile")
    return is_loopback(settings.host) or bool(encrypted)


_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:@/\\?#\s]*)(?::[0-9]*)?")
"""A `Host` without user information, path or anything else that readers of URLs read differently."""


class Origins:
    """The pages that a server trusts: its own, and those of `cors_settings`. It trusts all other clients.

    A server on loopback also checks `Host`, against DNS rebinding: a page whose name has changed to this address has
    the origin of the server, but a foreign name.
    """

    def __init__(self, settings: Settings) -> None:
        cors = settings.cors_settings or CORSSettings()
        self._any = "*" in cors.allow_origins
        self._listed = frozenset(origin.lower().rstrip("/") for origin in cors.allow_origins)
        self._pattern = re.compile(cors.allow_origin_regex) if cors.allow_origin_regex else None
        hosts = [host.lower() for host in settings.allowed_hosts]
        self._hosts = frozenset((settings.host.lower(), *hosts))
        self._suffixes = tuple(host for host in hosts if host.startswith("."))
        self._checks_host = is_loopback(settings.host) and "*" not in hosts

    def check(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Raise PermissionDenied for a request that a foreign page has sent. Programs send no origin."""
        if self._any:
            return
        sent = dict(headers)
        host = sent.get(b"host", b"").decode("latin-1").lower().strip()
        if self._checks_host and b"host" in sent and not self._leads_here(host):
            raise PermissionDenied(
                f'The host "{host}" is not one of this server\'s names; the setting allowed_hosts adds names.'
            )
        if b"origin" not in sent:
            return  # browsers always send it with a POST
        origin = sent[b"origin"].decode("latin-1").lower()
        if not (origin.endswith(f"://{host}") or self._lists(origin)):
            raise PermissionDenied(
                f'Pages of "{origin}" may not do this; the setting cors_settings lists those that may.'
            )

    def check_page(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """As `check`, for a GET: with those of images and links browsers send no origin, but Sec-Fetch-Site."""
        self.check(headers)
        sent = dict(headers)
        if not self._any and b"origin" not in sent and sent.get(b"sec-fetch-site", b"none") in FOREIGN:
            raise PermissionDenied("Pages of other origins may not do this without an origin.")

    def _leads_here(self, host: str) -> bool:
        match = _HOST.fullmatch(host)
        if match is None:
            return False
        name = match[1].strip("[]")
        return (
            is_loopback(name)
            or name in self._hosts
            or f".{name}".endswith(self._suffixes)
            or any(map(self._lists, (f"http://{host}", f"https://{host}")))
        )

    def _lists(self, origin: str) -> bool:
        return origin in self._listed or (
            self._pattern is not None and self._pattern.fullmatch(origin) is not None
        )

"""Origin checks: which web pages may use the server, and under which host names."""

import re
from collections.abc import Iterable

from ...dataplane.access import is_loopback
from ...errors import PermissionDenied
from ...settings import Settings
from ...settings.cors import CORSSettings

FOREIGN = (b"cross-site", b"same-site")
"""Values of Sec-Fetch-Site for requests from pages with other origins."""


def allows_get_streams(settings: Settings) -> bool:
    """Whether a GET may run a model. By default, only if `check_page` detects every foreign page.

    Beyond loopback, browsers send Sec-Fetch-Site only over TLS, and many GET requests have no Origin header.
    """
    if settings.get_streams is not None:
        return settings.get_streams
    encrypted = (settings.custom_rest_server_settings or {}).get("ssl_certfile")
    return is_loopback(settings.host) or bool(encrypted)


_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:@/\\?#\s]*)(?::[0-9]*)?")
"""A `Host` without user information, path or anything else that URL parsers disagree about."""


class Origins:
    """The web pages that may use the server: its own pages, and the origins in `cors_settings`.

    Clients other than browsers are not restricted. A server on loopback also checks `Host` against DNS
    rebinding: a page whose name has been rebound to this address has the same origin as the server, but a
    foreign host name.
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
        """Raise PermissionDenied if a page from an origin that is not allowed has sent the request.

        Clients other than browsers do not send an Origin.
        """
        if self._any:
            return
        sent = dict(headers)
        host = sent.get(b"host", b"").decode("latin-1").lower().strip()
        if self._checks_host and b"host" in sent and not self._is_own_host(host):
            raise PermissionDenied(
                f'The host "{host}" is not one of this server\'s names; the setting allowed_hosts adds names.'
            )
        if b"origin" not in sent:
            return  # browsers always send an Origin with a POST
        origin = sent[b"origin"].decode("latin-1").lower()
        if not (origin.endswith(f"://{host}") or self._is_listed(origin)):
            raise PermissionDenied(
                f'Pages of "{origin}" may not do this; the setting cors_settings lists those that may.'
            )

    def check_page(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Check a GET, including Sec-Fetch-Site, because images and links send that header but no Origin.

        Raises PermissionDenied.
        """
        self.check(headers)
        sent = dict(headers)
        if not self._any and b"origin" not in sent and sent.get(b"sec-fetch-site", b"none") in FOREIGN:
            raise PermissionDenied("Pages of other origins may not do this without an origin.")

    def _is_own_host(self, host: str) -> bool:
        match = _HOST.fullmatch(host)
        if match is None:
            return False
        name = match[1].strip("[]")
        return (
            is_loopback(name)
            or name in self._hosts
            or f".{name}".endswith(self._suffixes)
            or any(map(self._is_listed, (f"http://{host}", f"https://{host}")))
        )

    def _is_listed(self, origin: str) -> bool:
        return origin in self._listed or (
            self._pattern is not None and self._pattern.fullmatch(origin) is not None
        )

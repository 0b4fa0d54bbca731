"""Restricts the web pages that may open a WebSocket or post without a preflight request."""

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from ...dataplane.access import is_loopback
from ...errors import PermissionDenied
from ...settings import Settings
from ...settings.server import CORSSettings

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
        self._own = settings.host if is_loopback(settings.host) else None

    def check(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Raise PermissionDenied for a request that a foreign page has sent."""
        if self._any:
            return
        found = dict(headers)
        host = found.get(b"host", b"").decode("latin-1").lower()
        if self._own is not None and b"host" in found and not self._leads_here(host, self._own):
            raise PermissionDenied(f'The host "{host}" is not one of this server\'s names.')
        if b"origin" not in found:
            return  # browsers always send it with the requests that are checked here
        origin = found[b"origin"].decode("latin-1").lower()
        if origin.partition("://")[2] != host and not self._lists(origin):
            raise PermissionDenied(
                f'Pages of "{origin}" may not do this; the setting cors_settings lists those that may.'
            )

    def check_page(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """As `check`, for a GET: with those of images and links browsers send no origin, but Sec-Fetch-Site."""
        self.check(headers)
        found = dict(headers)
        if not self._any and b"origin" not in found and found.get(b"sec-fetch-site", b"none") in FOREIGN:
            raise PermissionDenied("Pages of other origins may not do this without an origin.")

    def _leads_here(self, host: str, own: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return (
            is_loopback(name) or name == own or any(map(self._lists, (f"http://{host}", f"https://{host}")))
        )

    def _lists(self, origin: str) -> bool:
        return origin in self._listed or (
            self._pattern is not None and self._pattern.fullmatch(origin) is not None
        )

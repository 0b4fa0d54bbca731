"""Options of the HTTP ports, validated before the server starts. They have the same names as in uvicorn."""

import logging
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..errors import InvalidSettings
from .tls import OPTIONS as TLS_OPTIONS

logger = logging.getLogger("inferstream.server")

KEEP_ALIVE = 75
"""Seconds that an idle connection stays open.

Longer than the usual timeout of proxies, so that the proxy closes the connection first.
"""

WITHOUT_EFFECT = re.compile(
    r"access_log|app|callback_notify|env_file|factory|fd|forwarded_allow_ips|h11_max_incomplete_event_size|host|http2?|"
    r"interface|lifespan|limit_\w+|log_\w+|loop|port|proxy_headers|reload\w*|reset_contextvars|root_path|"
    r"ssl_context_factory|ssl_version|timeout_\w+|uds|use_colors|workers|ws\w*"
)
"""uvicorn options that MLServer passes on. They have no effect here, or other settings replace them."""


class HttpOptions(NamedTuple):
    """The options of one port."""

    backlog: int = 2048
    date_header: bool = True
    headers: Any = ()
    server_header: bool = False
    timeout_keep_alive: int = KEEP_ALIVE

    @property
    def common(self) -> list[tuple[bytes, bytes]]:
        """The headers of every response."""
        own = [(name.lower().encode(), value.encode()) for name, value in self.headers]
        named = self.server_header and b"server" not in dict(own)
        return [(b"server", b"inferstream"), *own] if named else own


def parse_http_options(options: Mapping[str, Any] | None, source: str) -> HttpOptions:
    """Read the options of a port.

    Raises InvalidSettings if an option is unknown or has a value of the wrong type.
    """
    values = {}
    for name, value in (options or {}).items():
        if name in HttpOptions._fields:
            values[name] = _check_option(name, value, source)
        elif WITHOUT_EFFECT.fullmatch(name):
            logger.warning('%s: option "%s" has no effect', source, name)
        elif name not in TLS_OPTIONS:
            raise InvalidSettings(f'{source}: "{name}" is not an option of an HTTP port')
    return HttpOptions(**values)


def _check_option(name: str, value: Any, source: str) -> Any:
    if name == "headers":
        if isinstance(value, list) and all(map(_is_header, value)):
            return [tuple(pair) for pair in value]
        wanted = "a list of pairs of texts"
    elif name in ("date_header", "server_header"):
        if isinstance(value, bool):
            return value
        wanted = "true or false"
    else:
        if type(value) is int and value > 0:
            return value
        wanted = "a positive whole number"
    raise InvalidSettings(f'{source}: "{name}" must be {wanted}, got {value!r}')


def _is_header(pair: Any) -> bool:
    return (
        isinstance(pair, list | tuple)
        and len(pair) == 2
        and all(isinstance(part, str) and part.isascii() and part.isprintable() for part in pair)
    )

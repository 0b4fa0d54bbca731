"""Options that settings pass on to uvicorn, checked before the start."""

import inspect
import logging
from collections.abc import Mapping
from typing import Any

import uvicorn

from ..errors import InvalidSettings
from .tls import OPTIONS as TLS_OPTIONS

logger = logging.getLogger("inferstream.server")

PASSED_ON = ("backlog", "date_header", "headers", "server_header", "timeout_keep_alive")
"""uvicorn's options that have the same meaning here; the server sets all others itself."""


def uvicorn_options(options: Mapping[str, Any] | None, source: str) -> dict[str, Any]:
    """The options to pass on. Raises InvalidSettings for an unknown one, or for a value of the wrong type."""
    known = inspect.signature(uvicorn.Config.__init__).parameters
    found = {}
    for name, value in (options or {}).items():
        if name not in known:
            raise InvalidSettings(f'{source}: "{name}" is not an option of uvicorn')
        if name in PASSED_ON:
            found[name] = _checked(name, value, source)
        elif name not in TLS_OPTIONS:
            logger.warning('%s: the option "%s" has no effect here', source, name)
    return found


def _checked(name: str, value: Any, source: str) -> Any:
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

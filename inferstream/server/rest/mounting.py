"""Detects routes of the server, its models and an enclosing application that hide each other."""

import logging
from collections.abc import Iterator, Sequence
from typing import Any

from ...dataplane.dataplane import DataPlane
from ...errors import InvalidSettings
from ...handlers import CustomHandler
from ...settings import Settings
from ...telemetry.metrics import Meters
from .routes import PLACEHOLDER
from .routing import build_routes

logger = logging.getLogger("inferstream.rest")


def warn_of_hidden(
    model: str, routes: Sequence[CustomHandler], dataplane: DataPlane, settings: Settings, meters: Meters
) -> None:
    """Log a warning for each custom route of a model whose path a dialect of the server claims."""
    own = build_routes(dataplane, settings, meters)
    for path in dict.fromkeys(route.rest_path for route in routes):
        if (owner := own.find_owner(path)) is not None:
            logger.warning('model %s: custom route %s is hidden by dialect "%s"', model, path, owner)


def check_mounts(host: Any, app: Any, dataplane: DataPlane, settings: Settings, meters: Meters) -> None:
    """Raise InvalidSettings if a route of `host` and a route of `app`, mounted in it, claim the same path.

    `host` is a Starlette or FastAPI application. Mounts in other applications cannot be inspected. FastAPI
    may represent an included router as one route without a path. If such a router follows the mount, its
    paths are not checked.
    """
    routes = [*getattr(host, "routes", ())]
    for index, mount in enumerate(routes):
        if getattr(mount, "app", None) is not app:
            continue
        prefix = mount.path
        for method, path in _list_own_routes(dataplane, settings, meters):
            for route in routes[:index]:
                if _matches(route, method, prefix + path):
                    raise InvalidSettings(
                        f'the route "{_name(route)}" hides "{prefix}{path}" of the application mounted at '
                        f'"{prefix or "/"}"; move that route, or mount the application elsewhere'
                    )
        for route in routes[index + 1 :]:
            if f"{getattr(route, 'path', None)}/".startswith(f"{prefix}/"):
                raise InvalidSettings(
                    f'the application mounted at "{prefix or "/"}" hides the route "{_name(route)}"; '
                    "mount it behind that route, or elsewhere"
                )


def _list_own_routes(dataplane: DataPlane, settings: Settings, meters: Meters) -> Iterator[tuple[str, str]]:
    """Yield the method and path of each route of the server and its models. "model" replaces model names."""
    for method, path in build_routes(dataplane, settings, meters).claims:
        yield method, PLACEHOLDER.sub("model", path)
    for handler, _ in dataplane.custom_routes():
        yield handler.rest_method, handler.rest_path


def _matches(route: Any, method: str, path: str) -> bool:
    """Whether a route matches a path, with this method or another."""
    if not callable(getattr(route, "matches", None)):
        return False
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "root_path": "",
        "headers": [],
        "query_string": b"",
    }
    return bool(route.matches(scope)[0].value)


def _name(route: Any) -> str:
    return str(getattr(route, "path", None) or type(route).__name__)

"""Finds routes that hide each other: of the server, of its models, and of an application around it."""

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
    """Log each route of a model that the server hides, because the server claims the path."""
    own = build_routes(dataplane, settings, meters)
    for path in dict.fromkeys(route.rest_path for route in routes):
        if (owner := own.owner_of(path)) is not None:
            logger.warning('model %s: its route %s is hidden: the dialect "%s" claims it', model, path, owner)


def check_mounts(host: Any, app: Any, dataplane: DataPlane, settings: Settings, meters: Meters) -> None:
    """Raise InvalidSettings if a route of `host` and one of `app`, mounted in it, claim the same path.

    `host` is a Starlette or FastAPI application; other applications do not show their mounts. FastAPI may
    keep an included router as one route without a path. The paths of such a router behind the mount are unknown.
    """
    routes = [*getattr(host, "routes", ())]
    for index, mount in enumerate(routes):
        if getattr(mount, "app", None) is not app:
            continue
        prefix = mount.path
        for method, path in _own(dataplane, settings, meters):
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


def _own(dataplane: DataPlane, settings: Settings, meters: Meters) -> Iterator[tuple[str, str]]:
    """Method and path of each route of the server and of its models. "model" stands for every model."""
    for method, path in build_routes(dataplane, settings, meters).claims:
        yield method, PLACEHOLDER.sub("model", path)
    for handler, _ in dataplane.custom_routes():
        yield handler.rest_method, handler.rest_path


def _matches(route: Any, method: str, path: str) -> bool:
    """Whether a route serves a path, or refuses it for its method."""
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

"""Looks for routes that the application and the one it is mounted in hide from each other."""

from collections.abc import Iterator
from typing import Any

from ...dataplane.dataplane import DataPlane
from ...errors import InvalidSettings
from ...settings import Settings
from .dialects.metadata import ALIVE

MODEL = "/v2/models/model"
"""Stands for every model: no route of a program's own is meant for just this one."""

POSTED = ("infer", "generate", "infer_stream", "generate_stream")


def check_mounts(host: Any, app: Any, settings: Settings, dataplane: DataPlane) -> None:
    """Raise InvalidSettings where a route of `host` and one of `app`, mounted in it, claim the same path.

    `host` is a Starlette or FastAPI application; the mounts of any other cannot be known. FastAPI may keep an
    included router as one route without a path. Of such a router behind the mount it cannot be said what it has.
    """
    routes = [*getattr(host, "routes", ())]
    for index, mount in enumerate(routes):
        if getattr(mount, "app", None) is not app:
            continue
        prefix = mount.path
        for method, path in _own(settings, dataplane):
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


def _own(settings: Settings, dataplane: DataPlane) -> Iterator[tuple[str, str]]:
    """Method and path of what the application serves, its models' own routes included."""
    for path in (*ALIVE, "/v2", "/v2/health/ready", "/docs", "/openapi.json", "/v2/docs", MODEL):
        yield "GET", path
    if settings.metrics_endpoint:
        yield "GET", settings.metrics_endpoint
    for action in POSTED:
        yield "POST", f"{MODEL}/{action}"
    yield "POST", "/v2/repository/index"
    for handler, _ in dataplane.custom_routes():
        yield handler.rest_method, handler.rest_path


def _matches(route: Any, method: str, path: str) -> bool:
    """Whether a route answers a path, or refuses it for its method."""
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

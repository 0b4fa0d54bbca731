"""The routes of a server: those of the dialects that it needs itself, and those of dialects that join."""

from collections.abc import Callable, Sequence

from ...dataplane.access import Action
from ...dataplane.dataplane import DataPlane
from ...extensions import DIALECTS, leave_out, loaded
from ...handlers import CustomHandler
from ...settings import Settings
from ...telemetry.metrics import Meters
from ..door import Door
from .dialects.base import HttpDialect, ReadRoute
from .dialects.generate import Generate
from .dialects.metadata import Metadata
from .dialects.metrics import MetricsRoute
from .dialects.requests import Requests
from .dialects.resources import Resources
from .dialects.v2 import V2
from .routes import Routes

CORE: tuple[type[HttpDialect], ...] = (
    V2,
    Generate,
    Metadata,
    MetricsRoute,
    Resources,
    Requests,
)


def build_routes(
    dataplane: DataPlane,
    settings: Settings,
    meters: Meters,
    custom_routes: Callable[[], Sequence[tuple[CustomHandler, str]]] = tuple,
) -> Routes:
    """All paths that a server claims.

    A dialect of another package that claims a path twice or is none is left out. Raises InvalidSettings for it in
    strict mode, and where two of ours claim a path.
    """
    dialects = [dialect(dataplane, settings, meters) for dialect in CORE]
    routes = Routes(dialects, custom_routes)
    for plugin, kind in loaded(DIALECTS, settings.strict):
        if isinstance(kind, type) and issubclass(kind, Door):
            continue
        if not (isinstance(kind, type) and issubclass(kind, HttpDialect)):
            leave_out(plugin, "it is not a subclass of HttpDialect or Door", settings.strict)
            continue
        try:
            dialect = kind(dataplane, settings, meters)
            routes.add(dialect)
        except Exception as error:
            leave_out(plugin, error, settings.strict)
        else:
            dialects.append(dialect)
    for dialect in dialects:
        dialect.siblings = dialects
    return routes


def build_action_finder(settings: Settings) -> Callable[[str, str], Action | None]:
    """A function of a decoded path and a method, which returns the action that such a request asks for.

    It returns None for a path that no dialect claims, as those of models' own routes.
    """
    # Routes are found without a dataplane, which only answers them.
    routes = build_routes(None, settings, Meters())  # type: ignore[arg-type]

    def find(path: str, method: str) -> Action | None:
        route = routes.of_path(path, method)
        return route.claim.action if isinstance(route, ReadRoute) else route and route.action

    return find

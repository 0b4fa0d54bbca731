"""The routes of a server, from the dialects of the core and of plug-ins."""

from collections.abc import Callable, Sequence

from ...dataplane.access import Action
from ...dataplane.dataplane import DataPlane
from ...extensions.entries import DIALECTS
from ...extensions.loading import leave_out, load_group
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
    """Build the routes of all dialects.

    A plug-in dialect that is invalid or claims another dialect's path is skipped. In strict mode, it raises
    InvalidSettings. Two core dialects that claim the same path always raise InvalidSettings.
    """
    dialects = [dialect(dataplane, settings, meters) for dialect in CORE]
    routes = Routes(dialects, custom_routes)
    for plugin, kind in load_group(DIALECTS, settings.strict):
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
    """Return a function that maps a decoded path and a method to the action of the request.

    The function returns None for a path that no dialect claims, such as a custom route of a model.
    """
    # Lookup does not need a dataplane; only serving a request does.
    routes = build_routes(None, settings, Meters())  # type: ignore[arg-type]

    def find(path: str, method: str) -> Action | None:
        route = routes.find_route(path, method)
        return route.claim.action if isinstance(route, ReadRoute) else route and route.action

    return find

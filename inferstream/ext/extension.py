"""`Extension`: everything that a plug-in brings to the server, as one value."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field

API = 1
"""The version of the extension API that this server has."""

Named = Mapping[str, str]
"""What a plug-in brings, by its name: `"module:object"`, which is imported when it is needed."""


@dataclass(frozen=True)
class Position:
    """A part and its place in the order: next to the part with the name `inside` or `outside`.

    If there is no such part, it gets the place of a part that names none.
    """

    value: str
    """`"module:object"`."""
    _: KW_ONLY
    inside: str = ""
    outside: str = ""


Placed = Mapping[str, str | Position]
"""As `Named`, where the order counts."""


def _nothing() -> dict[str, str]:
    return field(default_factory=dict)


@dataclass(frozen=True)
class Extension:
    """A plug-in. Its package names this value as an entry point of the group `inferstream.extensions`.

    The module of the value is imported by each process and each command: it should import nothing else.
    """

    name: str
    _: KW_ONLY
    api: int = API
    """The version of the extension API for which it is written."""
    requires: Sequence[str] = ()
    """Names of the plug-ins that it imports."""
    commands: Named = _nothing()
    """Commands of `server`: functions with annotations of Typer, or an application of Typer."""
    dialects: Named = _nothing()
    """Subclasses of `HttpDialect`, which serve paths of the REST port."""
    doors: Named = _nothing()
    """Subclasses of `Door`, which bring requests from elsewhere."""
    stages: Placed = _nothing()
    """Stage factories, which join inside the middleware unless they name a place."""
    edges: Placed = _nothing()
    """Functions of `ServerParts` that make an `Edge` around requests, RPCs and sockets, or None if it is off.

    The edge joins outside the others unless it names a place.
    """
    workers: Named = _nothing()
    """Subclasses of `WorkerEdge`, which see the calls that come to a worker process."""
    codecs: Named = _nothing()
    """Modules that register codecs, by content type."""
    runtimes: Named = _nothing()
    """Subclasses of `MLModel`, by the name that stands in `implementation`."""
    sources: Named = _nothing()
    """Functions or classes that fetch remote URIs, by scheme."""
    modules: Named = _nothing()
    """Tables of the modules of another server that exist here: a module with `MODULES`, by the name of the server."""

"""`Extension`: everything that a plug-in brings to the server, as one value."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field

API = 1
"""The version of the extension API that this server has."""

Named = Mapping[str, str]
"""What a plug-in brings, by its name: `"module:object"`, which is imported when it is needed."""


def _nothing() -> Named:
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
    settings: str = ""
    """`"module:Class"` of a `Section`, whose fields join `settings.json` and the variables of the server."""
    model_settings: str = ""
    """The same for `model-settings.json` and the variables of models."""
    variables: Sequence[str] = ()
    """Variables that it reads besides its settings, without the prefix `INFERSTREAM_`."""
    commands: Named = _nothing()
    """Commands of `server`: functions with annotations of Typer, or an application of Typer."""
    dialects: Named = _nothing()
    """Subclasses of `HttpDialect`, which serve paths of the REST port."""
    doors: Named = _nothing()
    """Subclasses of `Door`, which bring requests from elsewhere."""
    stages: Named = _nothing()
    """Stage factories, which join inside the middleware."""
    codecs: Named = _nothing()
    """Modules that register codecs, by content type."""
    runtimes: Named = _nothing()
    """Subclasses of `MLModel`, by the name that stands in `implementation`."""
    sources: Named = _nothing()
    """Functions or classes that fetch remote URIs, by scheme."""
    modules: Named = _nothing()
    """Tables of the modules of another server that exist here: a module with `MODULES`, by the name of the server."""

"""`Extension`: a single value that lists everything a plug-in adds to the server."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal

__all__ = ["API", "Artefact", "Extension", "Flag", "Position"]

API = 1
"""The version of the extension API that this server implements."""

Named = Mapping[str, str]
"""Objects that a plug-in adds, by name. Each is a `"module:object"` string, imported on first use."""


@dataclass(frozen=True)
class Position:
    """An entry in an ordered list, placed directly inside or outside the entry with the given name.

    Naming an entry that does not exist is an error.
    """

    value: str
    """The object to add, as `"module:object"`."""
    _: KW_ONLY
    inside: str = ""
    outside: str = ""


Placed = Mapping[str, str | Position]
"""Like `Named`, for lists in which the order matters."""


def _nothing() -> dict[str, str]:
    return field(default_factory=dict)


@dataclass(frozen=True)
class Flag:
    """A flag of `server start`. It changes the setting of the same name unless `starts` handles it."""

    help: str
    kind: type[bool] | type[int] | type[str] = str
    """The type of the value. A `bool` flag has no value on the command line."""
    _: KW_ONLY
    after: str = ""
    """The flag that precedes this one in the help. By default, this one is shown last."""


@dataclass(frozen=True)
class Artefact:
    """A file type that the server recognizes as a model without `model-settings.json`."""

    implementation: str
    """The import path of the runtime that loads the file."""
    _: KW_ONLY
    others: Sequence[str] = ()
    """Other runtimes that can load this type. Settings of untrusted models may also name these."""
    names: Sequence[str] = ()
    """File names of this type."""
    suffixes: Sequence[str] = ()
    """File suffixes of this type, such as `.joblib`."""
    begins: bytes = b""
    """Magic bytes at the start of the file. Types that define them are matched before all others."""
    role: Literal["model", "archive", "folder", "settings"] = "model"
    """The role of the file.

    - `model`: a model
    - `archive`: an archive of a model and its settings
    - `folder`: a file that describes the folder it is in
    - `settings`: a settings file of another server
    """
    settings: str = ""
    """`"module:function"`: reads settings from the path of the archive, description or settings file."""
    leads: bool = False
    """Whether other artefacts in the same folder belong to this model."""
    is_part: bool = False
    """Whether several files of this type in one folder are shards of one model."""
    weights: str = ""
    """A glob pattern for weights in a described folder. If it matches, types with `yields` are ignored."""
    yields: bool = False
    data: Sequence[str] = ()
    """Suffixes of files that are safe in untrusted models: the runtime never executes or unpickles them."""


@dataclass(frozen=True)
class Extension:
    """A plug-in. Its package declares this value as an entry point in the group `inferstream.extensions`.

    Every process and command imports the module that defines the value, so the module should import nothing
    else.
    """

    name: str
    _: KW_ONLY
    api: int = API
    """The version of the extension API that the plug-in was written for."""
    requires: Sequence[str] = ()
    """Names of the plug-ins that this one imports."""
    settings: str = ""
    """`"module:Class"` of a `Section`, whose fields join the server settings (file and environment)."""
    model_settings: str = ""
    """`"module:Class"` of a `Section`, whose fields join the model settings (file and environment)."""
    variables: Sequence[str] = ()
    """Other environment variables that the plug-in reads, without the prefix `INFERSTREAM_`."""
    flags: Mapping[str, Flag] = field(default_factory=dict)
    """Additional flags of `server start`, by name, for example `max-words`."""
    starts: Named = _nothing()
    """Functions that take a `ServerStart`, turn flags into settings and supply defaults."""
    commands: Named = _nothing()
    """Subcommands of `server`: annotated functions for Typer, or Typer applications."""
    panels: Mapping[str, str] = field(default_factory=dict)
    """The heading of each command in `server --help`, such as `Build`. The default is `Other`."""
    dialects: Named = _nothing()
    """Subclasses of `HttpDialect`, which serve paths on the REST port."""
    stream_dialects: Named = _nothing()
    """Subclasses of `StreamDialect`, by name, which serve ModelStreamInfer streams."""
    rpcs: Named = _nothing()
    """Functions or classes that take the dataplane, settings and meters.

    They return an `RpcService` or None.
    """
    messages: Named = _nothing()
    """Modules that define a `PeerQuestion`, a message between the processes of a server.

    An entry may also be a function in such a module. It takes `ServerParts` and creates the handler when the
    server starts.
    """
    authority: str = ""
    """`"module:Class"` of an `Authority`, which authorizes requests if the settings enable it."""
    actions: Named = _nothing()
    """`Action` objects: operations of the plug-in's paths and RPCs that need their own scope."""
    doors: Named = _nothing()
    """Subclasses of `Door`, which receive requests from other systems, such as message queues."""
    stages: Placed = _nothing()
    """Stage factories. By default, stages are placed inside the middleware."""
    edges: Placed = _nothing()
    """Functions that take `ServerParts` and return an `Edge` around requests, RPCs and sockets.

    They return None if the edge is disabled. By default, an edge is placed outside the existing ones.
    """
    call_values: Named = _nothing()
    """`CallValue` objects whose values are sent to the worker process along with the call."""
    turns: Named = _nothing()
    """`Turns` classes, which order waiting calls. Models use the first one that the settings enable."""
    meters: Named = _nothing()
    """`MeterSet` classes that appear in the metrics before any model uses them."""
    workers: Named = _nothing()
    """Subclasses of `WorkerEdge`, which observe the calls that a worker process receives."""
    codecs: Named = _nothing()
    """Modules that register codecs, by content type."""
    artefacts: Sequence[Artefact] = ()
    """File types that the server loads as models without settings."""
    runtimes: Named = _nothing()
    """Subclasses of `MLModel`, by the name that `implementation` accepts."""
    sources: Named = _nothing()
    """Functions or classes that fetch remote URIs, by scheme."""
    facets: Named = _nothing()
    """Functions that compute a facet of a model from its `Signature` and `ModelSettings` when it loads."""
    adapters: Named = _nothing()
    """Functions that add methods to a loaded model object, and return whether they did."""
    outputs: Named = _nothing()
    """Functions that take `ModelSettings` and return a function that rewrites the requested outputs."""
    fetchers: Named = _nothing()
    """Classes that fetch remote URIs, for the keys `repository` and `artefacts`."""
    hints: Named = _nothing()
    """Functions that take a text model and a prompt, and return the path and body of an example request."""
    protocol_extensions: Named = _nothing()
    """Predicates on `Settings`, by protocol extension, that return whether the server supports it."""
    proto_files: Named = _nothing()
    """Functions that derive a file served at `/proto` from `dataplane.proto`, by file name."""
    references: Mapping[str, str] = field(default_factory=dict)
    """Tensor parameters that refer to data stored elsewhere, and the error for requests that cannot use them.

    A stage of the plug-in fills in the data.
    """
    json_inputs: Sequence[str] = ()
    """Names of inputs that contain JSON in every model that declares them."""
    optional_inputs: Sequence[str] = ()
    """Names of inputs that a request may omit in every model that declares them."""
    loggers: Sequence[str] = ()
    """Names of another server's loggers whose records belong in the log of this server."""
    modules: Named = _nothing()
    """Modules whose `MODULES` maps another server's modules to ours, by the name of that server."""
    moved: Named = _nothing()
    """Modules of the plug-in, by their former paths below `inferstream`.

    Imports from the old paths still work.

    Submodules of a package keep their relative paths.
    """

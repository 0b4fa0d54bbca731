"""`Extension`: everything that a plug-in brings to the server, as one value."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal

__all__ = ["API", "Artefact", "Extension", "Flag", "Position"]

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
class Flag:
    """A flag of `server start`. It sets the setting of its name, unless a function of `starts` takes it."""

    help: str
    kind: type[bool] | type[int] | type[str] = str
    """The type of its value. One of `bool` has no value on the command line."""
    _: KW_ONLY
    after: str = ""
    """The flag below which help shows it; if there is no such flag, it is the last."""


@dataclass(frozen=True)
class Artefact:
    """A kind of file by which a model without `model-settings.json` is recognised."""

    implementation: str
    """The import path of the runtime that reads it."""
    _: KW_ONLY
    others: Sequence[str] = ()
    """Other runtimes that read it in some cases. Settings without trust may name these too."""
    names: Sequence[str] = ()
    """Names of such files."""
    suffixes: Sequence[str] = ()
    """Their suffixes, as `.joblib`."""
    begins: bytes = b""
    """Their first bytes. Such a kind is tried before others with the same names and suffixes."""
    role: Literal["model", "archive", "folder", "settings"] = "model"
    """What the file is: a model, an archive of a model and its settings, the description of the folder that it is in,
    or settings of another server."""
    settings: str = ""
    """`"module:function"`: the settings for the path of an archive, of a described folder, or of such settings."""
    leads: bool = False
    """Whether other artefacts beside it belong to its model."""
    is_part: bool = False
    """Whether several files of the kind in a folder are parts of one model."""
    weights: str = ""
    """A pattern of files in a described folder, beside which files of a kind that `yields` are not its model."""
    yields: bool = False
    data: Sequence[str] = ()
    """Suffixes of files that a model without trust may have, because the runtime runs and unpickles nothing in them."""


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
    flags: Mapping[str, Flag] = field(default_factory=dict)
    """Flags of `server start`, by name, as `max-words`."""
    starts: Named = _nothing()
    """Functions of a `ServerStart`, which turn flags into settings, and give settings that nobody names."""
    commands: Named = _nothing()
    """Commands of `server`: functions with annotations of Typer, or an application of Typer."""
    dialects: Named = _nothing()
    """Subclasses of `HttpDialect`, which serve paths of the REST port."""
    stream_dialects: Named = _nothing()
    """Subclasses of `StreamDialect`, each by its name, which serve streams of ModelStreamInfer."""
    rpcs: Named = _nothing()
    """Functions or classes that make an `RpcService` of a dataplane, settings and meters, or None."""
    messages: Named = _nothing()
    """Modules that define a `PeerQuestion` between the processes of a server, or functions of `ServerParts` in them,
    which make what answers when the server starts."""
    authority: str = ""
    """`"module:Class"` of an `Authority`, which decides who may do what if the settings turn it on."""
    actions: Named = _nothing()
    """Objects of `Action`: operations of its paths and RPCs, which need a scope of their own."""
    doors: Named = _nothing()
    """Subclasses of `Door`, which bring requests from elsewhere."""
    stages: Placed = _nothing()
    """Stage factories, which join inside the middleware unless they name a place."""
    edges: Placed = _nothing()
    """Functions of `ServerParts` that make an `Edge` around requests, RPCs and sockets, or None if it is off.

    The edge joins outside the others unless it names a place.
    """
    call_values: Named = _nothing()
    """Objects of `CallValue` that pack what they keep with a call for a worker process."""
    turns: Named = _nothing()
    """Classes of `Turns`, which order the calls that wait. Each model gets the first one that the settings turn on."""
    meters: Named = _nothing()
    """Classes of `MeterSet`, which a scrape shows before a model has any of them."""
    workers: Named = _nothing()
    """Subclasses of `WorkerEdge`, which see the calls that come to a worker process."""
    codecs: Named = _nothing()
    """Modules that register codecs, by content type."""
    artefacts: Sequence[Artefact] = ()
    """Kinds of files that are models without settings."""
    runtimes: Named = _nothing()
    """Subclasses of `MLModel`, by the name that stands in `implementation`."""
    sources: Named = _nothing()
    """Functions or classes that fetch remote URIs, by scheme."""
    facets: Named = _nothing()
    """Functions of a `Signature` and `ModelSettings`, which make what the plug-in knows of a model when it loads."""
    adapters: Named = _nothing()
    """Functions that add methods to a loaded model object, and return whether they did."""
    outputs: Named = _nothing()
    """Functions of `ModelSettings`, which return a function that rewrites the outputs that a client requests."""
    fetchers: Named = _nothing()
    """`repository` and `artefacts`: classes that serve what is at remote URIs."""
    hints: Named = _nothing()
    """Functions of a text model and a prompt, which return the path and the body of an example of a call."""
    protocol_extensions: Named = _nothing()
    """Functions of `Settings`, by the name of an extension of the protocol: whether the server has it."""
    proto_files: Named = _nothing()
    """Functions that make a file at `/proto` of the text of `dataplane.proto`, by the name of the file."""
    references: Mapping[str, str] = field(default_factory=dict)
    """Parameters by which a tensor refers to its data, in place of the data, each with the error of requests that
    cannot have them. A stage of the plug-in brings the data."""
    json_inputs: Sequence[str] = ()
    """Names of inputs that hold JSON in every model that declares them."""
    optional_inputs: Sequence[str] = ()
    """Names of inputs that a request may leave out in every model that declares them."""
    loggers: Sequence[str] = ()
    """Names of loggers of another server, whose records belong to the log of this one."""
    modules: Named = _nothing()
    """Tables of the modules of another server that exist here: a module with `MODULES`, by the name of the server."""
    moved: Named = _nothing()
    """Modules of the plug-in by their former paths below `inferstream`, which still work.

    The modules of a package are at the same places below its new path.
    """

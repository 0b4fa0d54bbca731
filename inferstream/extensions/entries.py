"""The entries of extensions: their groups, and what each refers to."""

from collections.abc import Iterable, Mapping
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from ..errors import InvalidSettings

T = TypeVar("T")

EXTENSIONS = "extensions"
"""The entry-point group of `Extension` values, without `PREFIX`."""

FLAGS = "flags"
STARTS = "starts"
COMMANDS = "commands"
DIALECTS = "dialects"
STREAM_DIALECTS = "stream_dialects"
RPCS = "rpcs"
MESSAGES = "messages"
STAGES = "stages"
EDGES = "edges"
CALL_VALUES = "call_values"
TURNS = "turns"
METERS = "meters"
WORKERS = "workers"
CODECS = "codecs"
RUNTIMES = "runtimes"
SOURCES = "sources"
MODULES = "modules"
MOVED = "moved"
FACETS = "facets"
HINTS = "hints"
ADAPTERS = "adapters"
OUTPUTS = "outputs"
FETCHERS = "fetchers"
ACTIONS = "actions"
AUTHORITIES = "authorities"
PROTOCOL_EXTENSIONS = "protocol_extensions"
PROTO_FILES = "proto_files"
SETTINGS = "settings"
MODEL_SETTINGS = "model_settings"

FIELDS = {
    STARTS: ("starts",),
    COMMANDS: ("commands",),
    DIALECTS: ("dialects", "doors"),
    STREAM_DIALECTS: ("stream_dialects",),
    RPCS: ("rpcs",),
    MESSAGES: ("messages",),
    STAGES: ("stages",),
    EDGES: ("edges",),
    CALL_VALUES: ("call_values",),
    TURNS: ("turns",),
    METERS: ("meters",),
    WORKERS: ("workers",),
    CODECS: ("codecs",),
    RUNTIMES: ("runtimes",),
    SOURCES: ("sources",),
    MODULES: ("modules",),
    MOVED: ("moved",),
    FACETS: ("facets",),
    HINTS: ("hints",),
    ADAPTERS: ("adapters",),
    OUTPUTS: ("outputs",),
    FETCHERS: ("fetchers",),
    PROTOCOL_EXTENSIONS: ("protocol_extensions",),
    PROTO_FILES: ("proto_files",),
    ACTIONS: ("actions",),
}
"""The fields of `Extension` that hold the entries of each group. Entry points may also use these groups."""

SINGLE = {SETTINGS: "settings", MODEL_SETTINGS: "model_settings", AUTHORITIES: "authority"}
"""The fields of `Extension` that hold a single entry, which is named after the extension."""

NAMING_MODULES = {MESSAGES, CODECS, MODULES, MOVED}
"""The fields whose entries can be modules. Entries of the other fields are `module:object`."""
OURS = __name__.partition(".")[0]

PREFIX = f"{OURS}."
"""The prefix of all entry-point groups of inferstream."""


class Plugin(NamedTuple):
    """One entry of an installed package: a name in a group, and the object that it refers to."""

    package: str
    group: str
    name: str
    value: str
    """`module:object`, or the path of a module."""
    extension: str = ""
    """The extension that contains the entry. Empty for an entry point."""
    inside: str = ""
    outside: str = ""
    """The parts that this one is directly inside or outside of, if the entries of its group are ordered."""

    @property
    def ours(self) -> bool:
        return self.package == OURS

    def load(self) -> Any:
        """Import the object. Raises whatever importing its module raises."""
        return import_object(self.value)

    def build_error(self, reason: str | BaseException) -> "InvalidSettings":
        """Return a one-line error for an entry that cannot be used."""
        from ..errors import InvalidSettings  # imported lazily: `server --help` does not need it

        if isinstance(reason, InvalidSettings):
            reason = reason.message
        elif isinstance(reason, BaseException):
            first = next(iter(str(reason).strip().splitlines()), "")
            reason = f"{type(reason).__name__}: {first}".rstrip(": ")
        place = f'entry point "{self.name}" of {PREFIX}{self.group}'
        if self.extension:
            field = SINGLE.get(self.group) or f'{self.group} "{self.name}"'
            place = f'extension "{self.extension}", {field}'
        return InvalidSettings(f"package {self.package}: {place} ({self.value}): {reason}")

    def build_startup_error(self, reason: str | BaseException) -> "InvalidSettings":
        """Return the error that stops a start without an extension that may control access."""
        from ..errors import InvalidSettings

        return InvalidSettings(
            f"{self.build_error(reason).message}. The server does not start, because this package may decide "
            f"who may do what. Repair or update it, or remove it: pip uninstall {self.package}"
        )


def import_object(value: str) -> Any:
    """Import the object that `module:object` names, or a module.

    Raises whatever importing the module raises.
    """
    module, _, name = value.partition(":")
    imported = import_module(module)
    return attrgetter(name)(imported) if name else imported


def arrange(
    parts: Mapping[str, T], joining: Iterable[tuple[Plugin, T]], default_inside: str = ""
) -> list[tuple[Plugin | None, T]]:
    """Return the core parts and the `joining` parts, ordered from innermost to outermost.

    A part without a position goes inside `default_inside`, or outermost if no part has that name.
    """
    order: list[tuple[str, Plugin | None, T]] = [(name, None, part) for name, part in parts.items()]
    for plugin, part in sorted(joining, key=lambda each: bool(each[0].inside or each[0].outside)):
        places = {name: index for index, (name, of, _) in enumerate(order) if of is None or name not in parts}
        at = places.get(plugin.inside, places.get(default_inside, len(order)))
        if plugin.outside in places:
            at = places[plugin.outside] + 1
        order.insert(at, (plugin.name, plugin, part))
    return [(plugin, part) for _, plugin, part in order]

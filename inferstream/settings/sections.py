"""Sections: settings of plug-ins, whose fields join the core settings."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ConfigDict, create_model

from ..errors import InvalidSettings
from ..extensions.discovery import extensions, plugins
from ..extensions.loading import list_faults, set_aside
from .environment import EnvironmentModel
from .sizes import parse_size

RESERVED = "reserved.txt"
"""The file of reserved settings: a group and a name per line, for each setting of a built-in plug-in.

A reserved setting is an error if no installed plug-in declares it: for example, `keys_file` must not be
ignored if the plug-in that checks keys is missing.
"""


class Section(EnvironmentModel):
    """Base class for the settings of a plug-in.

    Fields, defaults, validators and the docstrings below the fields join the class of all settings. The
    module of a section is imported with the settings, so it may import only `inferstream.ext.settings` from
    this package.
    """

    # Only the class of all settings is built.
    model_config = ConfigDict(defer_build=True, protected_namespaces=())

    @staticmethod
    def parse_size(value: object) -> object:
        """Convert a size such as `1.5GiB` to bytes, for a validator with `mode="before"`. Returns other
        values unchanged. Raises ValueError."""
        return parse_size(value)

    def named_versions(self) -> Iterable[tuple[str, str]]:
        """The other versions of the model that the section refers to, as pairs of setting and version. They
        must exist."""
        return ()


class UndeclaredField(InvalidSettings):
    """A setting that a built-in plug-in declares, but no installed plug-in."""


Kind = TypeVar("Kind", bound=Section)
Core = TypeVar("Core", bound="Composed")


class Composed(EnvironmentModel):
    """Core settings, with the fields of the plug-ins' sections."""

    model_config = ConfigDict(defer_build=True)

    def __init__(self, **values: Any) -> None:
        cls = type(self)
        unknown = values.keys() - declared_names(cls)
        if unknown and (
            missing := [name for name in reserved_names(cls._group) & unknown if values[name] is not None]
        ):
            raise UndeclaredField(f'field "{min(missing)}": {describe_missing()}')
        super().__init__(**values)

    @classmethod
    def check_variables(cls, prefix: str, names: Iterable[str]) -> None:
        fields = {name.removeprefix(prefix) for name in names if name.startswith(prefix)}
        for name in sorted((fields - declared_names(cls)) & reserved_names(cls._group)):
            raise InvalidSettings(f"environment: {f'{prefix}{name}'.upper()}: {describe_missing()}")

    def section(self, kind: type[Kind]) -> Kind:
        """Return these settings typed as a section, or its defaults if no installed plug-in declares the
        section."""
        return self if isinstance(self, kind) else kind.from_complete(b"{}")


def compose(name: str, core: type[Core], group: str) -> type[Core]:
    """Build the class of the core settings and of each section in a group.

    A section of another package is left out if it cannot be used. For a built-in section, its error is
    raised.
    """
    sections: list[type[Any]] = []
    taken = dict.fromkeys({*_names(core), *map(str.lower, dir(core))}, "the server")
    for plugin in plugins(group).values():
        try:
            section = plugin.load()
        except (Exception, SystemExit) as error:
            set_aside(plugin, error)
            continue
        if not (isinstance(section, type) and issubclass(section, Section)):
            set_aside(plugin, "it is not a subclass of Section")
            continue
        # pydantic keeps only one of two validators with the same name.
        names = {*_names(section), *(set(dir(section)) - set(dir(Section)))}
        if twice := sorted(names & taken.keys()):
            set_aside(plugin, f'the name "{twice[0]}" belongs to {taken[twice[0]]}')
            continue
        taken |= dict.fromkeys(names, f'the plug-in "{plugin.extension}"')
        sections.append(section)
    # Fields of the last base come first.
    bases = (*reversed(sections), core)
    return create_model(name, __base__=bases, __module__=__package__ or "", __doc__=core.__doc__)


@cache
def declared_names(kind: type[EnvironmentModel]) -> frozenset[str]:
    """Return the names of the settings of a class and of the variables that plug-ins read."""
    return frozenset({*_names(kind), *map(str.lower, further_variables())})


def further_variables() -> set[str]:
    """Return the variables that plug-ins read in addition to their settings, without the prefix."""
    return {name for extension in extensions().values() for name in extension.variables}


@cache
def reserved_names(group: str) -> frozenset[str]:
    """Return the names of settings that must not be ignored."""
    lines = Path(__file__).with_name(RESERVED).read_text("utf-8").splitlines()
    return frozenset(name for line in lines for of, _, name in [line.partition(" ")] if of == group)


def describe_missing() -> str:
    """Explain why a reserved setting is rejected."""
    return f"no installed plug-in declares this setting; {list_plugins()}"


def list_plugins() -> str:
    """The plug-ins that may declare settings, and those that cannot be used, for messages about unknown settings."""
    usable = f"installed plug-ins: {', '.join(sorted(extensions())) or 'none'}"
    return "; not usable: ".join((usable, *list_faults()))


def _names(kind: type[EnvironmentModel]) -> set[str]:
    """Return the names and aliases of the fields in lower case, because variables are not case-sensitive."""
    fields = kind.model_fields.items()
    return {each.lower() for name, field in fields for each in (name, field.alias or name)}

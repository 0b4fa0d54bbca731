"""Sections: settings that a plug-in declares. Their fields join those of the core."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ConfigDict, create_model

from ..errors import InvalidSettings
from ..extensions import extensions, plugins, set_aside
from .environment import EnvironmentModel
from .sizes import size_of

RESERVED = "reserved.txt"
"""The file with the names that plug-ins of this distribution declare, one in each line after its group.

If no installed plug-in declares one of them, it ends the start: without the keys, `keys_file` must not be ignored.
"""


class Section(EnvironmentModel):
    """Base of the settings of a plug-in.

    Fields, defaults, validators and the docstrings below the fields join the class of all settings. The module of a
    section is imported with the settings, and imports nothing of the package except `inferstream.ext.settings`.
    """

    # Only the class of all settings is built.
    model_config = ConfigDict(defer_build=True, protected_namespaces=())

    @staticmethod
    def parse_size(value: object) -> object:
        """Bytes of a size such as `1.5GiB`, for a validator `before`; other values as they are. Raises ValueError."""
        return size_of(value)

    def named_versions(self) -> Iterable[tuple[str, str]]:
        """Other versions of the model that the section names, each after its setting; they must be there."""
        return ()


class UndeclaredField(InvalidSettings):
    """A field that a plug-in of this distribution declares, and none that is installed."""


Kind = TypeVar("Kind", bound=Section)
Core = TypeVar("Core", bound="Composed")


class Composed(EnvironmentModel):
    """Settings of the core, which the sections of plug-ins join."""

    model_config = ConfigDict(defer_build=True)

    def __init__(self, **values: Any) -> None:
        cls = type(self)
        unknown = values.keys() - declared(cls)
        if unknown and (
            missing := [name for name in reserved(cls._group) & unknown if values[name] is not None]
        ):
            raise UndeclaredField(f'field "{min(missing)}": {describe_missing()}')
        super().__init__(**values)

    @classmethod
    def check_variables(cls, prefix: str, names: Iterable[str]) -> None:
        fields = {name.removeprefix(prefix) for name in names if name.startswith(prefix)}
        for name in sorted((fields - declared(cls)) & reserved(cls._group)):
            raise InvalidSettings(f"environment: {f'{prefix}{name}'.upper()}: {describe_missing()}")

    def section(self, kind: type[Kind]) -> Kind:
        """These settings with the fields of a section; its defaults if no installed plug-in declares it."""
        return self if isinstance(self, kind) else kind.from_complete(b"{}")


def compose(name: str, core: type[Core], group: str) -> type[Core]:
    """The core's settings with the fields of each section of a group.

    A section of another package that cannot be used is set aside. Raises the error of one of ours.
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
        # Of two validators with one name, pydantic keeps one.
        names = {*_names(section), *(set(dir(section)) - set(dir(Section)))}
        if twice := sorted(names & taken.keys()):
            set_aside(plugin, f'the name "{twice[0]}" belongs to {taken[twice[0]]}')
            continue
        taken |= dict.fromkeys(names, f'the plug-in "{plugin.extension}"')
        sections.append(section)
    # The last base has the first fields.
    bases = (*reversed(sections), core)
    return create_model(name, __base__=bases, __module__=__package__ or "", __doc__=core.__doc__)


@cache
def declared(kind: type[EnvironmentModel]) -> frozenset[str]:
    """The names of the settings of a class, and of variables that plug-ins read."""
    return frozenset({*_names(kind), *map(str.lower, further_variables())})


def further_variables() -> set[str]:
    """The variables that plug-ins read besides their settings, without the prefix."""
    return {name for extension in extensions().values() for name in extension.variables}


@cache
def reserved(group: str) -> frozenset[str]:
    """The names of settings that must not be ignored."""
    lines = Path(__file__).with_name(RESERVED).read_text("utf-8").splitlines()
    return frozenset(name for line in lines for of, _, name in [line.partition(" ")] if of == group)


def describe_missing() -> str:
    """Why a reserved setting is refused."""
    return f"no installed plug-in declares this setting; {list_plugins()}"


def list_plugins() -> str:
    """The plug-ins that may declare settings, for messages about unknown ones."""
    return f"installed plug-ins: {', '.join(sorted(extensions())) or 'none'}"


def _names(kind: type[EnvironmentModel]) -> set[str]:
    """The names of the settings of a class, in lower case, because those of variables are not case-sensitive."""
    fields = kind.model_fields.items()
    return {each.lower() for name, field in fields for each in (name, field.alias or name)}

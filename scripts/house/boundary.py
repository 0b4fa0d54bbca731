"""The boundary between the core and its plug-ins: what crosses it, and where."""

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from .modules import FACE, OF_USERS, PACKAGE, Module, imports_of
from .source import Source

DOTTED = re.compile(r"\.*\w+(\.\w+)+\.?")


class Crossing(NamedTuple):
    """Something that crosses the boundary: the plug-in or the kind it counts for, its place, and its name."""

    of: str
    place: str
    name: str


@dataclass(frozen=True)
class Boundary:
    root: Path

    @cached_property
    def modules(self) -> dict[str, Module]:
        folder = self.root / PACKAGE
        files = (file for file in sorted(folder.rglob("*.py")) if not OF_USERS.search(str(file)))
        named = (Module(Source(file.relative_to(folder).as_posix(), file.read_text())) for file in files)
        return {module.name: module for module in named}

    @cached_property
    def core(self) -> list[Module]:
        return [module for module in self.modules.values() if module.plugin is None]

    @cached_property
    def plugins(self) -> list[Module]:
        return [module for module in self.modules.values() if module.plugin is not None]

    def lines(self, modules: list[Module]) -> tuple[int, int]:
        """Lines and code lines, without those of generated files."""
        written = [module.source for module in modules if not module.is_generated]
        return sum(source.lines for source in written), sum(source.code_lines for source in written)

    @staticmethod
    def _is_private(module: Module, name: str | None) -> bool:
        """Whether plug-ins may not take this name of a module of the core."""
        if module.plugin is not None:
            return False
        if module.is_ext or module.name in FACE:
            return name is not None and name not in module.public
        return True

    @cached_property
    def private(self) -> list[Crossing]:
        """Names that plug-ins take from the core although it does not export them."""
        return [crossing for module in self.plugins for crossing in self.private_of(module)]

    def private_of(self, module: Module) -> Iterator[Crossing]:
        """Names that a module may not take from the core."""
        plugin = module.plugin or ""
        for other, name, place in imports_of(module, self.modules):
            if self._is_private(other, name):
                yield Crossing(plugin, place, f"{other.name}:{name}" if name else other.name)
        for other, name, place in self.named_in(module):
            if self._is_private(other, name):
                yield Crossing(plugin, place, other.name)

    def named_in(self, module: Module) -> Iterator[tuple[Module, str | None, str]]:
        """The modules that texts and dotted names of one begin with, each with the name that follows and the place."""
        named = [
            (word, line)
            for text, line in module.strings
            for word in text.replace(":", ".").replace('"', " ").split()
        ]
        for word, line in [*named, *module.attributes]:
            other = self._longest(word) if word.startswith(f"{PACKAGE}.") else None
            if other is not None:
                rest = word.removeprefix(other.name).strip(".").partition(".")[0]
                yield other, rest or None, f"{module.file}:{line}"

    def _longest(self, word: str) -> Module | None:
        """The module that a dotted name begins with, not the package itself."""
        while "." in word:
            if word in self.modules:
                return self.modules[word]
            word = word.rpartition(".")[0]
        return None

    @cached_property
    def computed(self) -> list[Crossing]:
        """Imports of plug-ins by a computed name."""
        return [
            Crossing(module.plugin or "", f"{module.file}:{line}", "")
            for module in self.plugins
            for line in module.computed_imports
        ]

    @cached_property
    def leaks(self) -> list[Crossing]:
        """Imports of plug-ins by the core, for types too."""
        return [
            Crossing(other.plugin, place, other.name)
            for module in self.core
            for other, _, place in imports_of(module, self.modules)
            if other.plugin is not None
        ]

    @cached_property
    def strings(self) -> list[Crossing]:
        """Texts of the core that name a module of a plug-in."""
        theirs = {module.name for module in self.plugins}
        found = []
        for module in self.core:
            for text, line in module.strings:
                for word in text.replace(":", " ").replace('"', " ").split():
                    bare = word.lstrip(".")
                    tries = (
                        [word]
                        if word.startswith(f"{PACKAGE}.")
                        else [f"{PACKAGE}.{bare}", f"{module.folder}.{bare}"]
                    )
                    if DOTTED.fullmatch(word) and any(self._is_below(name, theirs) for name in tries):
                        found.append(Crossing("", f"{module.file}:{line}", word))
        return found

    @staticmethod
    def _is_below(name: str, modules: set[str]) -> bool:
        while name and name not in modules:
            name = name.rpartition(".")[0]
        return bool(name)

    @cached_property
    def entry_points(self) -> list[Crossing]:
        """Entry points of the package, other than the extension values of its plug-ins."""
        project = tomllib.loads((self.root / "pyproject.toml").read_text())["project"]
        return [
            Crossing(group, "pyproject.toml", f"{name} = {value}")
            for group, points in project.get("entry-points", {}).items()
            for name, value in points.items()
            if value.startswith(PACKAGE)
            if group != "inferstream.extensions" or not re.fullmatch(r"inferstream\.plugins\.\w+:\w+", value)
        ]

    @cached_property
    def mentions(self) -> list[Crossing]:
        """Words of plug-ins in names and texts of the core."""
        return [
            Crossing(word, f"{module.file}:{line}", "")
            for module in self.core
            for word, line in module.mentions
        ]

    @cached_property
    def needs(self) -> dict[str, set[str]]:
        """The plug-ins that each plug-in imports."""
        needs = defaultdict(set)
        for module in self.plugins:
            others = {
                other.plugin for other, _, _ in imports_of(module, self.modules) if other.plugin is not None
            }
            needs[module.plugin or ""] |= others - {module.plugin}
        return needs

    @cached_property
    def circles(self) -> list[str]:
        """The plug-ins that need themselves through others."""
        return sorted(plugin for plugin in [*self.needs] if plugin in self.reached(plugin))

    def reached(self, plugin: str) -> set[str]:
        """The plug-ins that one plug-in needs, and those that these need."""
        reached: set[str] = set()
        ahead = [plugin]
        while ahead:
            new = self.needs.get(ahead.pop(), set()) - reached
            reached |= new
            ahead += new
        return reached

    @cached_property
    def exported(self) -> set[str]:
        """The public names of the extension API."""
        return {name for module in self.core if module.is_ext for name in module.public}

    @cached_property
    def users(self) -> dict[str, set[str]]:
        """The plug-ins that use each name of the extension API."""
        users = defaultdict(set)
        for module in self.plugins:
            for other, name, _ in imports_of(module, self.modules):
                if other.is_ext and not self._is_private(other, name):
                    users[name or other.name].add(module.plugin or "")
        return users

    @cached_property
    def long_functions(self) -> list[tuple[int, str]]:
        return sorted(
            (each for module in self.modules.values() for each in module.long_functions), reverse=True
        )

    @property
    def settings(self) -> int:
        return sum(module.settings for module in self.core)

"""The tests of plug-ins: they obey the rule of imports of their plug-in, and so does what they share."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from .boundary import Boundary, Crossing
from .modules import Module, imports_of
from .source import sources

PACKAGE = "tests"
SHARED = f"{PACKAGE}.conftest"
"""The module that pytest loads for each test."""


@dataclass(frozen=True)
class PluginTests:
    boundary: Boundary

    @cached_property
    def modules(self) -> dict[str, Module]:
        modules = (Module(source, PACKAGE) for source in sources(self.boundary.root / PACKAGE))
        return {module.name: module for module in modules}

    @cached_property
    def crossings(self) -> list[Crossing]:
        """Imports of private names, of plug-ins that a plug-in does not require, and of the tests of either."""
        plugins = sorted({module.plugin for module in self.modules.values() if module.plugin is not None})
        found = (crossing for plugin in plugins for crossing in self._crossings_of(plugin))
        return [*dict.fromkeys(found)]

    def _crossings_of(self, plugin: str) -> Iterator[Crossing]:
        allowed = {None, plugin, *self.boundary.needs.get(plugin, ())}
        for module in self._reached(plugin):
            for _, place, name in self.boundary.private_of(module):
                yield Crossing(plugin, f"{PACKAGE}/{place}", name)
            ours = [*imports_of(module, self.boundary.modules), *self.boundary.named_in(module)]
            for other, _, place in (*ours, *self._support_of(module)):
                if other.plugin not in allowed or self._is_of_core(other):
                    yield Crossing(plugin, f"{PACKAGE}/{place}", other.name)

    def _reached(self, plugin: str) -> list[Module]:
        """The tests of a plug-in and the support that they import, each once."""
        reached = [module for module in self.modules.values() if module.plugin == plugin]
        if SHARED in self.modules:
            reached.append(self.modules[SHARED])
        for module in reached:  # grows
            for other, _, _ in self._support_of(module):
                if other.plugin is None and not self._is_of_core(other) and other not in reached:
                    reached.append(other)
        return reached

    def _support_of(self, module: Module) -> Iterator[tuple[Module, str | None, str]]:
        yield from imports_of(module, self.modules)
        for text, line in module.strings:
            if text in self.modules:
                yield self.modules[text], None, f"{module.file}:{line}"

    @staticmethod
    def _is_of_core(module: Module) -> bool:
        return module.file.startswith("unit/")

"""Patches library modules when model code imports them."""

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType


def patch_at_import(module: str, change: Callable[[ModuleType], None]) -> None:
    """Call `change` with a module: now if it is already imported, otherwise right after its import."""
    if module in sys.modules:
        change(import_module(module))  # waits for another thread that is still importing it
    elif not any(isinstance(finder, _AtImport) and finder.module == module for finder in sys.meta_path):
        sys.meta_path.insert(0, _AtImport(module, change))


class _AtImport(MetaPathFinder):
    """A finder that waits for the import. Importing the module early would slow the start of every worker."""

    def __init__(self, module: str, change: Callable[[ModuleType], None]) -> None:
        self.module = module
        self._change = change

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self.module:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(fullname, path)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                self._change(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]  # private to this module
        return spec

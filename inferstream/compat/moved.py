"""Modules that have left the package for a plug-in, under the paths that they had."""

import logging
import sys
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

from .. import extensions

logger = logging.getLogger("inferstream.extensions")


class MovedModule(Loader):
    """Makes the old path another name of the module at the new path, so that a class is one class under both."""

    def __init__(self, path: str) -> None:
        self._path = path

    def exec_module(self, module: ModuleType) -> None:
        moved = import_module(self._path)
        logger.warning("%s is %s; its old path will not work in a later version", module.__name__, self._path)
        if not hasattr(moved, "__path__"):
            sys.modules[module.__name__] = moved
            return
        # With the path of its files, Python would import each of its modules a second time.
        names = {name: value for name, value in vars(moved).items() if not name.startswith("__")}
        vars(module).update(names, __doc__=moved.__doc__)


def find_moved(name: str) -> ModuleSpec | None:
    """The module that an extension names for this former path, or below one for that of its package; or None."""
    parent, inner = name.removeprefix(f"{extensions.OURS}."), ""
    moved = extensions.plugins(extensions.MOVED)
    while parent:
        plugin = moved.get(parent)
        if plugin is not None:
            path = plugin.value + inner
            spec = find_spec(path)
            if spec is None:
                return None
            return ModuleSpec(name, MovedModule(path), is_package=spec.submodule_search_locations is not None)
        parent, _, last = parent.rpartition(".")
        inner = f".{last}{inner}"
    return None

"""Support for the former import paths of modules that have moved to a plug-in."""

import logging
import sys
from functools import partial
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

from ..extensions import discovery, entries

logger = logging.getLogger("inferstream.extensions")

_warned: set[str] = set()


class MovedModule(Loader):
    """A loader that makes a former path an alias of the new module, so each class exists only once."""

    def __init__(self, path: str) -> None:
        self._path = path

    def exec_module(self, module: ModuleType) -> None:
        moved = import_module(self._path)
        _warn(module.__name__, self._path)
        if not hasattr(moved, "__path__"):
            sys.modules[module.__name__] = moved
            return
        # With the same `__path__`, Python would import the submodules a second time.
        names = {name: value for name, value in vars(moved).items() if not name.startswith("__")}
        vars(module).update(names, __doc__=moved.__doc__, __getattr__=partial(getattr, moved))


def find_moved_module(name: str) -> ModuleSpec | None:
    """Return the spec for the former path of a module or of a parent package, or None for other names."""
    path = _moved_path(name)
    spec = None if path is None else find_spec(path)
    if path is None or spec is None:
        return None
    return ModuleSpec(name, MovedModule(path), is_package=spec.submodule_search_locations is not None)


def current_path(path: str) -> str:
    """Return the current import path of a class, given a former path or the name of a built-in runtime.

    Any other path is returned unchanged. The first use of a former path logs a warning.
    """
    if "." not in path:
        runtime = discovery.plugins(entries.RUNTIMES).get(path)
        return path if runtime is None else runtime.value.replace(":", ".")
    module, _, name = path.rpartition(".")
    if not module.startswith(entries.PREFIX) or (moved := _moved_path(module)) is None:
        return path
    _warn(module, moved)
    return f"{moved}.{name}"


def _moved_path(name: str) -> str | None:
    parent, inner = name.removeprefix(entries.PREFIX), ""
    moved = discovery.plugins(entries.MOVED)
    while parent:
        plugin = moved.get(parent)
        if plugin is not None:
            return plugin.value + inner
        parent, _, last = parent.rpartition(".")
        inner = f".{last}{inner}"
    return None


def _warn(old: str, new: str) -> None:
    if old not in _warned:
        _warned.add(old)
        logger.warning("%s has moved to %s; its old path will not work in a later version", old, new)

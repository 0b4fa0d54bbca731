"""From the import path in a settings file to a class, found beside that file, installed, or a runtime of ours."""

import importlib
import sys
import threading
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors import InvalidSettings

importing = threading.RLock()
"""One import at a time: `sys.path` and `sys.modules` are changed for its length, and two threads that come into
one framework from two ends, as scikit-learn is imported by its artefacts, end in Python's `_DeadlockError`."""

_folders: set[Path] = set()
"""Folders that code was imported from; only modules living in one of these are ever imported anew."""

RUNTIMES = "inferstream.runtimes"
"""Entry points: the name is what settings files call a runtime, the value is its class."""

RESERVED = {
    "mlserver_catboost": "CatBoost",
    "mlserver_huggingface": "Hugging Face",
    "mlserver_mlflow": "MLflow",
}
"""MLServer's packages whose place a runtime of ours is to take."""


def resolve_class(path: str, source: str | None) -> type[Any]:
    """The class that `path` (module.Class) names, with the folder of the file `source` first on the path.

    Two folders may both hold a `model.py`: each import starts without the other folder's modules, and
    without this folder's older ones, so a reload sees changed code. The folder stays at the end of
    `sys.path` for imports that model code does later, inside its functions.
    Where no such module is, a registered runtime of this name answers: what a user has, or has installed
    under MLServer's name, is what he gets.
    Raises InvalidSettings when the path names no class; errors of the imported code pass as they are.
    """
    module_name, _, class_name = path.rpartition(".")
    if not module_name or not class_name.isidentifier():
        raise InvalidSettings(f'implementation "{path}" is not of the form module.Class')
    try:
        found = getattr(_module(module_name, source), class_name, None)
    except ModuleNotFoundError as missing:
        if not f"{module_name}.".startswith(f"{missing.name}."):
            raise
        found = _runtime(path)
        if found is None:
            raise
    if not isinstance(found, type):
        raise InvalidSettings(f'implementation "{path}": module {module_name} has no class {class_name}')
    return found


def _module(name: str, source: str | None) -> ModuleType:
    with importing:
        if source is None:
            return importlib.import_module(name)
        return _import_from(Path(source).resolve().parent, name)


def _runtime(path: str) -> Any:
    """The class registered under the name `path`, or None. Raises InvalidSettings for names we keep for later."""
    for point in entry_points(group=RUNTIMES, name=path):
        return point.load()
    package = path.partition(".")[0]
    if package in RESERVED:
        raise InvalidSettings(
            f'implementation "{path}": {package} is not installed, '
            f"and inferstream's own {RESERVED[package]} runtime is not built yet"
        )
    return None


def _import_from(folder: Path, module_name: str) -> ModuleType:
    _folders.add(folder)
    for name in _stale(folder):
        del sys.modules[name]
    importlib.invalidate_caches()
    entry = str(folder)
    sys.path.insert(0, entry)
    try:
        return importlib.import_module(module_name)
    finally:
        sys.path.remove(entry)
        if entry not in sys.path:
            sys.path.append(entry)


def _stale(folder: Path) -> list[str]:
    """Modules from model folders that this folder has under the same name, or that are its own."""
    claimed = {entry.name.removesuffix(".py") for entry in folder.iterdir()}
    stale = []
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in claimed:
            file = getattr(module, "__file__", None)
            if file is not None and not _folders.isdisjoint(Path(file).resolve().parents):
                stale.append(name)
    return stale

"""Package names of model folders, and the folders that belong to a model.

This file only needs the standard library, because it is also imported in the processes of a pool.
"""

import os
import re
import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib import _bootstrap
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder
from itertools import count
from pkgutil import iter_modules
from types import FunctionType, ModuleType
from typing import Any
from weakref import WeakValueDictionary

PREFIX = "model_folders."

ABSOLUTE = "_2f"
"""The start of an encoded absolute path in a package name."""

INSTALLED = (".dist-info", ".egg-info")
"""Suffixes of entries in a folder of installed packages, whose modules keep their names."""

NEVER_OF_A_MODEL = tuple(
    f"{folder}{os.sep}"
    for folder in (os.path.dirname(os.__file__), os.path.dirname(os.path.dirname(os.path.dirname(__file__))))
)
"""The standard library and this package, which may be below a model folder, for example a home folder."""

packages: dict[str, dict[str, None]] = {}
"""For each package, itself and the packages of folders that its code added to `sys.path`, in order.

They remain if the code removes the folders from `sys.path`.
"""

artefacts: dict[str, str] = {}
"""The artefact folder of each package. Folders on `sys.path` below it also belong to the package."""

REPLACED = "__"
"""The separator between a package name and a load number, in the package name of a replaced load."""

replaced: WeakValueDictionary[str, ModuleType] = WeakValueDictionary()
"""The modules of replaced loads, by the names that their code imports. Dropped when that code is."""

_loads = count(1)


def set_aside(folders: Mapping[str, str]) -> dict[str, Any]:
    """Remove modules from `sys.modules`, so that they are imported again, and return them by name.

    Modules of a model folder are renamed. Calls that are still running import and pickle under the new names.
    """
    for name in [*sys.modules]:
        if has_newer_load(name) and not getattr(sys.modules[name].__spec__, "_initializing", False):
            del sys.modules[name]
    load = next(_loads)
    removed = {name: sys.modules.pop(name) for name in folders}
    for name, module in removed.items():
        if folders[name] and isinstance(module, ModuleType):
            package = package_name(folders[name])
            plain = "" if name == package else f".{name.removeprefix(f'{package}.')}"
            _rename(module, f"{package}{REPLACED}{load}{plain}")
            vars(module)["__load__"] = removed
            replaced[module.__name__] = module
    return removed


def put_back(modules: Mapping[str, Any]) -> None:
    """Undo `set_aside` for these modules."""
    for name, module in modules.items():
        if isinstance(module, ModuleType):
            replaced.pop(module.__name__, None)
            _rename(module, name)
    sys.modules.update(modules)


def _rename(module: ModuleType, name: str) -> None:
    _rename_members(vars(module), module.__name__, name)
    module.__name__ = name
    if spec := module.__spec__:
        spec.name = name
        module.__package__ = spec.parent
    loader: Any = module.__loader__
    if hasattr(loader, "name"):
        loader.name = name


def _rename_members(namespace: Mapping[str, Any], old: str, new: str) -> None:
    for value in [*namespace.values()]:
        if isinstance(value, type | FunctionType) and value.__module__ == old:
            (type if isinstance(value, type) else object).__setattr__(value, "__module__", new)
            if isinstance(value, type):
                _rename_members(vars(value), old, new)


def has_newer_load(module: str) -> bool:
    """Whether a module belongs to a replaced load."""
    return module.startswith(PREFIX) and REPLACED in module.split(".", 2)[1]


def latest_package(package: str) -> str:
    """Return the package of the latest load of the same folder."""
    current, _, rest = package.partition(REPLACED)
    return current + rest.lstrip("0123456789")


def package_name(folder: str, within: str = PREFIX) -> str:
    """Return the package name of a model folder, or of a folder on `sys.path` that belongs to a model."""
    return within + re.sub(
        r"[^a-zA-Z0-9]", lambda char: "".join(f"_{byte:02x}" for byte in os.fsencode(char[0])), folder
    )


@lru_cache(maxsize=1024)
def find_folder(package: str) -> str:
    """Return the folder of a package name."""
    key = package.rpartition(".")[2].partition(REPLACED)[0].encode()
    return os.fsdecode(re.sub(rb"_([0-9a-f]{2})", lambda code: bytes.fromhex(code[1].decode()), key))


def plain_name(module: str) -> str:
    """Return the name of a module relative to its folder."""
    while module.startswith((PREFIX, ABSOLUTE)):
        module = module.removeprefix(PREFIX).partition(".")[2]
    return module


def owns(package: str, name: str) -> bool:
    """Whether a module belongs to the folder of a package.

    As in Python generally, built-in modules take precedence, and so do installed packages over a folder
    without code.
    """
    folder, top = find_folder(package), name.partition(".")[0]
    try:
        return not is_built_in(top) and top in _own_names(
            folder, os.stat(_containing_file(folder)).st_mtime_ns
        )
    except OSError:
        return False


def find_packages(package: str, name: str) -> list[str]:
    """Return the packages with a module that `name` can refer to in the code of `package`.

    The best match is first. These are the package itself, and packages of folders on `sys.path` that belong
    to it.
    """
    current = latest_package(package)
    if current != package:
        if current not in packages:  # a folder shared by models
            return [package] if _on_sys_path(find_folder(package), name) else []
        return [package + each.removeprefix(current) for each in find_packages(current, name)]
    roots = path_prefixes(package)
    used = packages.setdefault(package, {package: None})
    for entry in sys.path:
        if isinstance(entry, str) and entry.startswith(roots):
            path = os.path.normpath(entry)
            if path.startswith(roots) and _holds_code(path, find_folder(package)):
                used.setdefault(package_name(path, f"{package}."))
    owning = [each for each in [*used] if owns(each, name)]
    if len(owning) > 1:  # as in Python generally, namespace packages come last
        specs = {each: PathFinder.find_spec(name.partition(".")[0], [find_folder(each)]) for each in owning}
        owning.sort(key=lambda each: getattr(specs[each], "loader", None) is None)
    return owning


def _on_sys_path(folder: str, name: str) -> bool:
    """Whether `sys.path` resolves a module to this folder."""
    spec = PathFinder.find_spec(name.partition(".")[0])
    locations = [] if spec is None else [spec.origin, *(spec.submodule_search_locations or ())]
    return any(str(path).startswith(f"{folder}{os.sep}") for path in locations)


def _holds_code(path: str, folder: str) -> bool:
    """Whether a folder around or below a model folder contains the model's own modules.

    Folders of another version, of this package, of Python and of installed packages do not.
    """
    if path == folder or _is_of_another_version(path, folder):
        return False
    if f"{path}{os.sep}".startswith(NEVER_OF_A_MODEL):
        return False
    if not os.path.isdir(path):
        return os.path.isfile(_containing_file(path))
    return not any(name.endswith(INSTALLED) for name in os.listdir(path))


def _is_of_another_version(path: str, folder: str) -> bool:
    top = os.path.relpath(path, os.path.dirname(folder)).partition(os.sep)[0]
    return top.isdigit() and top != os.path.basename(folder)


def own_paths(package: str, entries: Iterable[Any]) -> list[str]:
    """Return the entries of `sys.path` in the folders of a package, followed by its own folder."""
    folder, roots = find_folder(package), path_prefixes(package)
    own = [entry for entry in entries if isinstance(entry, str) and f"{entry}{os.sep}".startswith(roots)]
    return [*dict.fromkeys([*(entry for entry in own if not _is_of_another_version(entry, folder)), folder])]


def _containing_file(path: str) -> str:
    """Return the path itself, or the archive that contains it."""
    while path and not os.path.exists(path):
        path = os.path.dirname(path)
    return path


@lru_cache(maxsize=1024)
def path_prefixes(package: str) -> tuple[str, ...]:
    """Return the path prefixes of folders that belong to a package.

    The parent of version folders belongs to every version.
    """
    folder, name = os.path.split(find_folder(package))
    around = name.isdigit() and folder not in sys.path
    roots = (folder if around else find_folder(package), artefacts.get(package, ""))
    return tuple(f"{root}{os.sep}" for root in roots if root)


@lru_cache(maxsize=1024)
def _own_names(folder: str, changed: int) -> frozenset[str]:
    entries = (
        os.listdir(folder) if os.path.isdir(folder) else [module.name for module in iter_modules([folder])]
    )
    names = {entry.partition(".")[0] for entry in entries} - {"", "__main__", "__pycache__"}
    return frozenset(name for name in names if _is_own(folder, name))


@lru_cache(maxsize=4096)
def is_built_in(name: str) -> bool:
    """Whether a module name is reserved for this package, or for modules that Python needs for archives."""
    return name == "inferstream" or bool(BuiltinImporter.find_spec(name) or FrozenImporter.find_spec(name))


def _is_own(folder: str, name: str) -> bool:
    spec = PathFinder.find_spec(name, [folder])
    if spec is None or spec.loader is not None:
        return spec is not None
    other = _bootstrap._find_spec(name, None)  # type: ignore[attr-defined]
    return other is None or other.loader is None

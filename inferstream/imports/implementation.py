"""Resolves the import path in a settings file: beside the file, installed, or a runtime of ours."""

import importlib
import os
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any

from ..errors import InvalidSettings
from ..extensions import RUNTIMES, plugins
from .folders import STANDS_IN, FileStamp, changed, import_from, importing, real_path, stamps_of
from .untrusted import untrusted

_apps: dict[tuple[str, str | None], tuple[ModuleType, dict[str, FileStamp | None]]] = {}
"""The modules of apps by name and source, and the files that they consist of."""

MOST_NAMES = 8
"""Names of a module that an error lists."""


def resolve_class(path: str, source: str | None) -> type[Any]:
    """The class that `path` (module.Class) names, as `resolve` finds it. Raises InvalidSettings for no class."""
    named = resolve(path, source)
    if not isinstance(named, type):
        module_name, _, class_name = path.rpartition(".")
        raise InvalidSettings(f'implementation "{path}": module {module_name} has no class {class_name}')
    return named


def resolve(path: str, source: str | None) -> Any:
    """What `path` names, with the folder of the file `source` first on the path.

    `module.Name` is a class or a function, `module:app/name` the function that an app serves as the model `name`.
    A registered runtime of this name is used only if there is no such module, so a user's own or installed package
    wins. Raises InvalidSettings when the path names nothing. Errors of the imported code are not changed.
    """
    check_form(path)
    if ":" in path:
        return _of_app(path, source)
    module_name, _, name = path.rpartition(".")
    if source is not None and untrusted(Path(source)) is not None and (ours := _runtime(path)) is not None:
        return ours  # a package of this name may unpickle files
    try:
        module = _module(module_name, source)
        named = getattr(module, name, None)
        if STANDS_IN in vars(module):
            named = _runtime(path) or named
    except ModuleNotFoundError as missing:
        if not f"{module_name}.".startswith(f"{missing.name}."):
            raise
        named = _runtime(path)
        if named is None:
            beside = "" if source is None else f"beside {Path(source).name}, and none is "
            raise InvalidSettings(
                f'implementation "{path}": there is no module {missing.name} {beside}installed'
            ) from None
    if named is None:
        raise InvalidSettings(
            f'implementation "{path}": module {module_name} has no class {name}{_classes_in(module)}'
        )
    return named


def check_form(path: str) -> None:
    """Raise InvalidSettings for the path of a file, or of no form that an implementation has."""
    module, colon, rest = path.partition(":")
    name = rest.partition("/")[0] if colon else ""
    written = PurePosixPath(module.replace("\\", "/"))
    if written.suffix == ".py" or "/" in module or "\\" in module:
        parts = [part for part in written.with_suffix("").parts if part not in (".", "/")]
        right = ".".join([*parts, name or "Class"])
        raise InvalidSettings(
            f'implementation "{path}" names a file: write module.Class, which is "{right}" beside the settings'
        )
    if not colon and not (module.rpartition(".")[0] and module.rpartition(".")[2].isidentifier()):
        raise InvalidSettings(f'implementation "{path}" is not of the form module.Class')


def _classes_in(module: ModuleType) -> str:
    """The classes that a module has, as the end of an error."""
    names = [
        name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__
    ]
    return f"; it has {', '.join(names)}" if 0 < len(names) <= MOST_NAMES else ""


def resolve_app(path: str, source: str | None) -> Any:
    """The object that `module:name` names. Raises InvalidSettings when there is none.

    The models of an app share its module, so it is imported again only after a file of its folder has changed.
    """
    module_name, _, name = path.partition(":")
    try:
        module = shared_module(module_name, source)
    except ModuleNotFoundError as missing:
        if not f"{module_name}.".startswith(f"{missing.name}."):
            raise
        raise InvalidSettings(f'app "{path}": there is no module {module_name}') from None
    app = getattr(module, name, None)
    if app is None:
        raise InvalidSettings(f'app "{path}": module {module_name} has no {name}')
    return app


def shared_module(name: str, source: str | None) -> ModuleType:
    """The module that several models share, imported again only after a file of its folder has changed.

    Errors of the imported code are not changed.
    """
    with importing:
        known = _apps.get((name, source))
        if known is not None and not changed(known[1]):
            return known[0]
        module = _module(name, source)
        _refuse_another(module, name, source)
        stamps = {} if source is None else stamps_of(_folder_of(source, name))
        _apps[name, source] = (module, stamps)
        return module


def _refuse_another(module: ModuleType, name: str, source: str | None) -> None:
    """Raise InvalidSettings if a file of this name is there and Python has imported another module."""
    if source is None:
        return
    file = _folder_of(source, name).joinpath(*name.split(".")).with_suffix(".py")
    imported = getattr(module, "__file__", None)
    if file.is_file() and (imported is None or not os.path.samefile(imported, file)):
        raise InvalidSettings(
            f"{file.name}: Python has another module of the name {name}; give the file another name"
        )


def _of_app(path: str, source: str | None) -> Any:
    app_path, _, name = path.partition("/")
    app = resolve_app(app_path, source)
    try:
        return app[name]
    except (KeyError, TypeError):
        if isinstance(app, type):
            raise InvalidSettings(
                f'implementation "{path}" names a class: write "{app_path.replace(":", ".")}"'
            ) from None
        raise InvalidSettings(f'implementation "{path}": {app_path} has no model {name}') from None


def _module(name: str, source: str | None) -> ModuleType:
    with importing:
        if source is None:
            return importlib.import_module(name)
        return import_from(_folder_of(source, name), name)


def _folder_of(source: str, name: str) -> Path:
    """The folder of a module: that of the settings, or of their target if they are a link and the module is there."""
    folder = real_path(Path(source).parent)
    top = name.partition(".")[0]
    if (folder / f"{top}.py").exists() or (folder / top).is_dir():
        return folder
    return real_path(source).parent


def _runtime(path: str) -> Any:
    """The class registered under the name `path`, or None. Raises InvalidSettings for one that cannot be used."""
    if (plugin := plugins(RUNTIMES).get(path)) is not None:
        try:
            return plugin.load()
        except Exception as error:
            if plugin.ours:
                raise
            raise plugin.refusal(error) from error
    return None

"""Resolution of import paths in settings: next to the settings file, installed, or a built-in runtime."""

import importlib
import os
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any

from ..errors import HINT, InvalidSettings
from ..extensions.discovery import plugins
from ..extensions.entries import RUNTIMES
from .folders import (
    STANDS_IN,
    FileStamp,
    detect_change,
    import_from,
    importing,
    real_path,
    shared_folders,
    stamp_files,
)
from .trusted import TrustedRuntimes
from .untrusted import untrusted_origin

_apps: dict[tuple[str, str | None], tuple[ModuleType, dict[str, FileStamp | None]]] = {}
"""The modules of apps by name and source, with the stamps of their files."""

MAX_NAMES = 8
"""The maximum number of names of a module that an error message lists."""


def resolve_class(path: str, source: str | None, by_operator: bool = False) -> type[Any]:
    """Return the class at `path` (module.Class), found by `resolve`.

    Raises InvalidSettings if it is not a class.
    """
    named = resolve(path, source, by_operator)
    if not isinstance(named, type):
        module_name, _, class_name = path.rpartition(".")
        raise InvalidSettings(f'implementation "{path}": module {module_name} has no class {class_name}')
    return named


def resolve(path: str, source: str | None, by_operator: bool = False) -> Any:
    """Return the object at `path`. The folder of the file `source` is searched first.

    `module.Name` is a class or a function. `module:app/name` is the function that an app serves as the model
    `name`. A registered runtime with this name is only used if no module has it, so the user's own or
    installed package takes precedence. Raises InvalidSettings if the path does not refer to an object. Errors
    in the imported code are not wrapped.

    While a list of trusted runtimes is in force, the folder is not searched, and the path must be in the list
    unless it is one of the server settings (`by_operator`).
    """
    check_form(path)
    if not by_operator:
        check_trusted(path, source)
    if TrustedRuntimes.current() is not None and not _is_of_operator(path, source):
        if (ours := _load_runtime(path)) is not None:
            return ours
        source = None
    if ":" in path:
        return _resolve_in_app(path, source)
    module_name, _, name = path.rpartition(".")
    if (
        source is not None
        and untrusted_origin(Path(source)) is not None
        and (ours := _load_runtime(path)) is not None
    ):
        return ours  # an installed package of this name may unpickle files
    try:
        module = _import_module(module_name, source)
        named = getattr(module, name, None)
        if named is None or STANDS_IN in vars(module):
            named = _load_runtime(path) or named
    except ModuleNotFoundError as missing:
        if not f"{module_name}.".startswith(f"{missing.name}."):
            raise
        named = _load_runtime(path)
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


def check_trusted(path: str, source: str | None) -> None:
    """Raise InvalidSettings if a list of trusted runtimes is in force and does not allow an implementation.

    Code that the operator named on the command line is always allowed.
    """
    runtimes = TrustedRuntimes.current()
    if runtimes is not None and not runtimes.allows(path) and not _is_of_operator(path, source):
        raise InvalidSettings(f'implementation "{path}" is not a trusted runtime of this server')


def _is_of_operator(path: str, source: str | None) -> bool:
    """Whether the module of an import path is searched in a folder whose code the operator serves."""
    module = path.partition(":")[0] if ":" in path else path.rpartition(".")[0]
    return source is not None and str(_import_folder(source, module)) in shared_folders()


def check_form(path: str) -> None:
    """Raise InvalidSettings for a file path, or any other path with an invalid format."""
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
        runtimes = ", ".join(sorted(name for name in plugins(RUNTIMES) if "." not in name))
        raise InvalidSettings(
            f'implementation "{path}": write module.Class, or the name of a runtime: {runtimes}'
        )


def _classes_in(module: ModuleType) -> str:
    """Return the names defined in a module, as the end of an error message."""
    names = [
        name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__
    ]
    return f"; it has {', '.join(names)}" if 0 < len(names) <= MAX_NAMES else ""


def resolve_app(path: str, source: str | None) -> Any:
    """Return the object at `module:name`. Raises InvalidSettings if it does not exist.

    All models of an app share its module, so it is only imported again after a file in its folder has
    changed.
    """
    module_name, _, name = path.partition(":")
    try:
        module = import_shared_module(module_name, source)
    except ModuleNotFoundError as missing:
        if not f"{module_name}.".startswith(f"{missing.name}."):
            raise
        raise InvalidSettings(f'app "{path}": there is no module {module_name}') from None
    app = getattr(module, name, None)
    if app is None:
        raise InvalidSettings(f'app "{path}": module {module_name} has no {name}{_apps_in(module)}')
    return app


def _apps_in(module: ModuleType) -> str:
    """Return the next step for a module without the named app, which lists its apps."""
    apps = [
        name
        for name, value in vars(module).items()
        if any(kind.__name__ == "App" for kind in type(value).__mro__)  # the class is in a layer above
    ]
    if not apps:
        return f"{HINT}write `from inferstream import App` and `app = App()` in it"
    return HINT + "; or ".join(f"server start {module.__name__}:{name}" for name in apps)


def import_shared_module(name: str, source: str | None) -> ModuleType:
    """Import a module that several models share. It is reloaded only after a file in its folder has changed.

    Errors in the imported code are not wrapped.
    """
    with importing:
        known = _apps.get((name, source))
        if known is not None and not detect_change(known[1]):
            return known[0]
        module = _import_module(name, source)
        _reject_other_module(module, name, source)
        stamps = {} if source is None else stamp_files(_import_folder(source, name))
        _apps[name, source] = (module, stamps)
        return module


def _reject_other_module(module: ModuleType, name: str, source: str | None) -> None:
    """Raise InvalidSettings if a file of this name exists but Python imported a different module."""
    if source is None:
        return
    file = _import_folder(source, name).joinpath(*name.split(".")).with_suffix(".py")
    imported = getattr(module, "__file__", None)
    if file.is_file() and (imported is None or not os.path.samefile(imported, file)):
        raise InvalidSettings(
            f"{file.name}: Python has another module of the name {name}; give the file another name"
        )


def _resolve_in_app(path: str, source: str | None) -> Any:
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


def _import_module(name: str, source: str | None) -> ModuleType:
    with importing:
        if source is None:
            return importlib.import_module(name)
        return import_from(_import_folder(source, name), name)


def _import_folder(source: str, name: str) -> Path:
    """Return the folder to import a module from.

    This is the folder of the settings, or the folder of their target if they are a link and only that folder
    has the module.
    """
    folder = real_path(Path(source).parent)
    top = name.partition(".")[0]
    if (folder / f"{top}.py").exists() or (folder / top).is_dir():
        return folder
    return real_path(source).parent


def _load_runtime(path: str) -> Any:
    """Return the runtime registered under the name `path`, or None.

    Raises InvalidSettings if it cannot be used.
    """
    if (plugin := plugins(RUNTIMES).get(path)) is not None:
        try:
            return plugin.load()
        except Exception as error:
            if plugin.ours:
                raise
            raise plugin.build_error(error) from error
    return None

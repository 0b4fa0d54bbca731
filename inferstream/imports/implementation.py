"""Resolves the import path in a settings file to a class: beside the file, installed, or a runtime of ours."""

import importlib
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors import InvalidSettings
from .folders import STANDS_IN, import_from, importing

RUNTIMES = "inferstream.runtimes"
"""Entry points. The name is the import path in settings files, the value is the class of a runtime."""

RESERVED = {
    "mlserver_catboost": "CatBoost",
    "mlserver_huggingface": "Hugging Face",
    "mlserver_mlflow": "MLflow",
}
"""MLServer's packages that will get a runtime of ours."""


def resolve_class(path: str, source: str | None) -> type[Any]:
    """The class that `path` (module.Class) names, with the folder of the file `source` first on the path.

    A registered runtime of this name is used only if there is no such module, so a user's own or installed package
    wins. Raises InvalidSettings when the path names no class. Errors of the imported code are not changed.
    """
    module_name, _, class_name = path.rpartition(".")
    if not module_name or not class_name.isidentifier():
        raise InvalidSettings(f'implementation "{path}" is not of the form module.Class')
    try:
        module = _module(module_name, source)
        found = getattr(module, class_name, None)
        if STANDS_IN in vars(module):
            found = _runtime(path) or found
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
        return import_from(Path(source).resolve().parent, name)


def _runtime(path: str) -> Any:
    """The class registered under the name `path`, or None. Raises InvalidSettings for reserved names."""
    for point in entry_points(group=RUNTIMES, name=path):
        return point.load()
    package = path.partition(".")[0]
    if package in RESERVED:
        raise InvalidSettings(
            f'implementation "{path}": {package} is not installed, '
            f"and inferstream's own {RESERVED[package]} runtime is not built yet"
        )
    return None

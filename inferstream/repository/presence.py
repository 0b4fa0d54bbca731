"""Checks that the class of a settings file exists, without importing it."""

import ast
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from ..errors import InvalidSettings
from ..extensions import RUNTIMES, plugins
from ..imports.folders import STANDS_IN
from ..imports.implementation import check_form


def missing_class(path: str, folder: Path | None, own_environment: bool = False) -> str | None:
    """The reason why `path` (module.Class) names no class; None if the class seems to exist.

    `folder` is searched first. The code is read and not run, so a class that a module makes in an unusual way
    passes. A missing module passes if the model has an environment of its own, which cannot be searched.
    """
    try:
        check_form(path)
    except InvalidSettings as error:
        return error.message
    module_name, _, class_name = path.rpartition(".")
    spec = _find(module_name, folder)
    if spec is None and path in plugins(RUNTIMES):
        return None  # a registered runtime
    if spec is None:
        return None if own_environment else f'implementation "{path}": there is no module {module_name}'
    if spec.origin is None or not spec.origin.endswith(".py"):
        return None  # compiled, or a namespace: there is no source
    try:
        tree = ast.parse(Path(spec.origin).read_bytes())
    except (SyntaxError, ValueError) as error:
        line = f" line {error.lineno}" if isinstance(error, SyntaxError) else ""
        return f'implementation "{path}": {Path(spec.origin).name}{line} is not Python: {error.args[0]}'
    except OSError as error:
        return f'implementation "{path}": {Path(spec.origin).name}: {error.strerror}'
    names = set(_bound(tree.body))
    if names.isdisjoint((class_name, "*", "__getattr__")):
        return f'implementation "{path}": module {module_name} has no class {class_name}'
    return None


def _find(module_name: str, folder: Path | None) -> ModuleSpec | None:
    """The module's spec. Unlike importlib's own search, this imports no parent package."""
    search: list[str] | None = [*([str(folder)] if folder is not None else []), *sys.path]
    spec: ModuleSpec | None = None
    first = search
    for part in module_name.split("."):
        spec = PathFinder.find_spec(part, search)
        if spec is None and search == first and part in sys.modules:
            module = sys.modules[part]  # for example an editable installation
            spec = None if STANDS_IN in vars(module) else module.__spec__
        if spec is None:
            return None
        search = list(spec.submodule_search_locations or ())
    return spec


def _bound(statements: list[ast.stmt]) -> Iterator[str]:
    """Names that a module's body binds, including in branches."""
    for statement in statements:
        match statement:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield statement.name
            case ast.Import() | ast.ImportFrom():
                for alias in statement.names:
                    yield alias.asname or alias.name.partition(".")[0]
            case ast.Assign() | ast.AnnAssign():
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                yield from (target.id for target in targets if isinstance(target, ast.Name))
            case _:
                yield from _bound([child for child in ast.walk(statement) if isinstance(child, _BINDING)])


_BINDING = (ast.ClassDef, ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)

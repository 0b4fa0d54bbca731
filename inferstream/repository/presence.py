"""A check that the class in a settings file exists, without importing it."""

import ast
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from ..errors import InvalidSettings
from ..extensions.discovery import plugins
from ..extensions.entries import RUNTIMES
from ..imports.folders import STANDS_IN
from ..imports.implementation import check_form


def find_missing_class(path: str, folder: Path | None, own_environment: bool = False) -> str | None:
    """Return the reason why `path` (module.Class) is not a class, or None if the class seems to exist.

    `folder` is searched first. The code is parsed but not run, so classes created dynamically may be
    accepted. A missing module is accepted if the model has its own environment, which cannot be searched.
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
        return None  # compiled, or a namespace package: no source to read
    try:
        tree = ast.parse(Path(spec.origin).read_bytes())
    except (SyntaxError, ValueError) as error:
        line = f" line {error.lineno}" if isinstance(error, SyntaxError) else ""
        return f'implementation "{path}": {Path(spec.origin).name}{line} is not Python: {error.args[0]}'
    except OSError as error:
        return f'implementation "{path}": {Path(spec.origin).name}: {error.strerror}'
    names = set(_iterate_bound_names(tree.body))
    if names.isdisjoint((class_name, "*", "__getattr__")):
        return f'implementation "{path}": module {module_name} has no class {class_name}'
    return None


def _find(module_name: str, folder: Path | None) -> ModuleSpec | None:
    """Find the spec of a module without importing its parent packages, unlike importlib."""
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


def _iterate_bound_names(statements: list[ast.stmt]) -> Iterator[str]:
    """Yield the names that a module binds, including in branches."""
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
                yield from _iterate_bound_names(
                    [child for child in ast.walk(statement) if isinstance(child, _BINDING)]
                )


_BINDING = (ast.ClassDef, ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)

"""Circles of imports among the files of the package, those that only type checkers follow included."""

import ast
from collections.abc import Iterator

from .source import Source

Graph = dict[str, set[str]]


def circles(sources: list[Source]) -> list[list[str]]:
    """Groups of files that import each other. The package's own `__init__` is left out: it names everything."""
    files = {_module(source.name): source for source in sources if source.name != "__init__.py"}
    graph = {module: {*_imported(source, module, files)} - {module} for module, source in files.items()}
    reached = {module: _reached(graph, module) for module in graph}
    groups = {
        tuple(sorted(other for other in reached[module] if module in reached[other])) for module in graph
    }
    return [list(group) for group in sorted(groups) if group]


def _module(name: str) -> str:
    return name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _reached(graph: Graph, start: str) -> set[str]:
    reached: set[str] = set()
    ahead = [start]
    while ahead:
        further = graph[ahead.pop()] - reached
        reached |= further
        ahead.extend(further)
    return reached


def _imported(source: Source, module: str, files: dict[str, Source]) -> Iterator[str]:
    """The files that one imports when it is imported, or that a type checker reads for it."""
    folder = module.split(".") if source.name.endswith("__init__.py") else module.split(".")[:-1]
    for node in _outside_functions(source.tree):
        if isinstance(node, ast.Import):
            named = [alias.name.removeprefix("inferstream.") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = folder[: len(folder) - node.level + 1] if node.level else []
            whole = ".".join([*base, *([node.module] if node.module else [])]).removeprefix("inferstream.")
            below = [f"{whole}.{alias.name}".lstrip(".") for alias in node.names]
            named = [name if name in files else whole for name in below]
        else:
            continue
        yield from (name for name in named if name in files)


def _outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from _outside_functions(child)

"""The package as syntax trees, for what no code of it may do."""

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "inferstream"


def nodes(*words: str) -> Iterator[tuple[str, ast.AST]]:
    """Each node of each file that has one of these words, which are those that the asker looks for."""
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text()
        if any(word in text for word in words):
            for node in ast.walk(ast.parse(text)):
                yield str(path.relative_to(PACKAGE)), node


def imported(node: ast.AST) -> list[str]:
    """The names that a node imports, with their modules."""
    if isinstance(node, ast.ImportFrom) and not node.level:
        return [f"{node.module}.{each.name}" for each in node.names]
    return [each.name for each in node.names] if isinstance(node, ast.Import) else []


def called(node: ast.AST) -> str:
    return ast.unparse(node.func) if isinstance(node, ast.Call) else ""

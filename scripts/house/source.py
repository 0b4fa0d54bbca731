"""The files of the package that are measured: shipped, and not generated."""

import ast
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

GENERATED = ("_pb2.py", "_pb2_grpc.py")
NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Source:
    """A file and its name from the package on, as in `server/rest/app.py`."""

    name: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @property
    def lines(self) -> int:
        return len(self.text.splitlines())

    @property
    def code_lines(self) -> int:
        """Lines that are not blank, a comment or a docstring. A blank line within a text is code."""
        code: set[int] = set()
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type not in NO_CODE:
                code.update(range(token.start[0], token.end[0] + 1))
        for node in self.nodes:
            if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
                docstring = node.body[0]
                code.difference_update(range(docstring.lineno, (docstring.end_lineno or 0) + 1))
        return len(code)


def sources(package: Path) -> list[Source]:
    return [Source(file.relative_to(package).as_posix(), file.read_text()) for file in _files(package)]


def _files(package: Path) -> Iterator[Path]:
    return (file for file in sorted(package.rglob("*.py")) if not file.name.endswith(GENERATED))

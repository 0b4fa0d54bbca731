"""Rates of habits in documentation and docstrings, and of function names that are not verbs."""

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
RULES = tomllib.loads(Path(__file__).with_name("habits.toml").read_text())
CODE = ("inferstream", "conformance/oip_conformance")

PARTICIPLE = re.compile(
    r"(?:[a-z]+_)?[a-z]+ed|told|said|given|taken|made|known|kept|sent|begun|of_\w+|\w+_of"
)
NOT_PROSE = re.compile(r"```.*?```|<!--.*?-->|\A---\n.*?\n---\n", re.DOTALL)


class Rate(NamedTuple):
    """How often a habit occurs in 1,000 words, or names in 1,000 functions, and the bound."""

    name: str
    rate: float
    bound: float
    at_least: bool = False

    @property
    def is_met(self) -> bool:
        return self.rate >= self.bound if self.at_least else self.rate <= self.bound


def pages() -> list[Path]:
    """The README and the pages of docs/."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def modules() -> list[Path]:
    """The Python files of the packages, without generated ones."""
    found = [path for folder in CODE for path in sorted((ROOT / folder).rglob("*.py"))]
    return [path for path in found if "_pb2" not in path.name]


def prose(path: Path) -> str:
    """The sentences of a page, or the docstrings of a module. Code becomes the word CODE."""
    if path.suffix == ".md":
        text = re.sub(r"`[^`\n]*`", "CODE", NOT_PROSE.sub(" ", path.read_text()))
        return re.sub(r"\]\([^)]*\)", "]", text)
    nodes = ast.walk(ast.parse(path.read_text()))
    strings = (
        node.value for node in nodes if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    )
    found = (ast.unparse(each) if not isinstance(each.value, str) else each.value for each in strings)
    return "\n\n".join(re.sub(r"``?[^`\n]*``?", "CODE", text) for text in found)


def rates(paths: Iterable[Path], kind: str) -> Iterator[Rate]:
    """The rate of each habit. `kind` is `docs` or `docstrings`."""
    texts = [prose(path) for path in paths]
    words = max(sum(len(text.split()) for text in texts), 1)
    for table in ("habits", "wanted"):
        for name, rule in RULES[table].items():
            if kind in rule:
                count = sum(len(re.findall(rule["pattern"], text, re.MULTILINE)) for text in texts)
                yield Rate(name, 1000 * count / words, rule[kind], at_least=table == "wanted")


def places(name: str, paths: Iterable[Path]) -> Iterator[str]:
    """The lines in which a habit occurs."""
    rule = (RULES["habits"] | RULES["wanted"])[name]
    for path in paths:
        for line in prose(path).splitlines():
            if re.search(rule["pattern"], line):
                yield f"{path}: {line.strip()[:140]}"


def participles(paths: Iterable[Path]) -> tuple[list[str], int]:
    """The functions that are named by a participle or `..._of`, except properties, and the number of functions."""
    found, count = [], 0
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("__"):
                continue
            count += 1
            if PARTICIPLE.fullmatch(node.name.lstrip("_")) and not any(
                map(_is_property, node.decorator_list)
            ):
                found.append(f"{path}:{node.lineno} {node.name}")
    return found, count


def _is_property(decorator: ast.expr) -> bool:
    return "property" in ast.unparse(decorator)


def name_rate(paths: Iterable[Path]) -> Rate:
    """Functions named by a participle, per 1,000."""
    found, count = participles(paths)
    return Rate(
        "functions named by a participle", 1000 * len(found) / max(count, 1), RULES["names"]["participles"]
    )

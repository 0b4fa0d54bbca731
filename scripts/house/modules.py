"""Modules of the package as the boundary sees them: whose they are, what they import, name and export."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from .source import GENERATED, Source

PACKAGE = "inferstream"
FACE = {PACKAGE, *(f"{PACKAGE}.{name}" for name in ("types", "errors", "codecs", "testing"))}
"""The public packages."""

OF_USERS = re.compile(r"/(templates|demo_models)/")
"""Files that users write."""


WORDS = re.compile(
    "|".join(
        [
            *(
                "anthropic",
                "blazerpc",
                "catboost",
                "cloud_?event",
                "cohere",
                "endpoint_?picker",
                "json_?rpc",
                "kafka",
            ),
            *("kserve", "lightgbm", "llama_?cpp", "mlflow", "ollama", "openai", "opentelemetry", "sagemaker"),
            *(
                "seldon",
                "sglang",
                "shadow",
                "sklearn",
                "torchserve",
                "transformers",
                "triton",
                "vertex",
                "vllm",
            ),
            *("xgboost", r"\btgi\b", r"\bmcp\b", r"\bjwt\b", r"\botel", r"\bonnx", r"\borca\b"),
        ]
    ),
    re.IGNORECASE,
)
"""Words of plug-ins that the core should not need."""

COMPUTED = {"import_module", "__import__", "load_module", "find_spec"}
"""Functions that import a module by a name which nobody can check."""

LONG = 60
Placed = tuple[str, int]
"""A word and its line."""


class Imported(NamedTuple):
    module: str
    name: str | None
    line: int


@dataclass(frozen=True)
class Module:
    source: Source
    package: str = PACKAGE

    @property
    def file(self) -> str:
        return self.source.name

    @property
    def is_package(self) -> bool:
        return self.file.rpartition("/")[2] == "__init__.py"

    @cached_property
    def name(self) -> str:
        return f"{self.package}.{self.file[:-3].replace('/', '.')}".removesuffix(".__init__")

    @property
    def folder(self) -> str:
        """The package that relative imports start from."""
        return self.name if self.is_package else self.name.rpartition(".")[0]

    @property
    def is_generated(self) -> bool:
        return self.file.endswith(GENERATED)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return [] if self.is_generated else self.source.nodes

    @cached_property
    def plugin(self) -> str | None:
        """The plug-in that it belongs to; None for the core."""
        if self.file.startswith("plugins/") and self.file != "plugins/__init__.py":
            return self.file.split("/")[1].removesuffix(".py")
        return None

    @property
    def is_ext(self) -> bool:
        return f"{self.name}.".startswith(f"{PACKAGE}.ext.")

    @cached_property
    def public(self) -> set[str]:
        """`__all__`, or every name at the top without an underscore; those under a condition too."""
        names: set[str] = set()
        top = self.source.tree.body
        for node in [
            *top,
            *(below for each in top if isinstance(each, ast.If | ast.Try) for below in each.body),
        ]:
            bound = [*_bound(node)]
            if (
                "__all__" in bound
                and isinstance(node, ast.Assign)
                and isinstance(node.value, ast.List | ast.Tuple)
            ):
                return {each.value for each in node.value.elts if isinstance(each, ast.Constant)}  # type: ignore[misc]
            names.update(name for name in bound if name[0] != "_")
        return names

    @cached_property
    def imports(self) -> list[Imported]:
        found = []
        for node in self.nodes:
            if isinstance(node, ast.Import):
                found += [Imported(alias.name, None, node.lineno) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                home = node.module or ""
                if node.level:
                    base = self.folder.split(".")
                    home = ".".join([*base[: len(base) - node.level + 1], *filter(None, [home])])
                found += [Imported(home, alias.name, node.lineno) for alias in node.names]
        return found

    @cached_property
    def strings(self) -> list[Placed]:
        """Texts, without docstrings."""
        prose = {node.value for node in self.nodes if isinstance(node, ast.Expr)}
        return [
            (node.value, node.lineno)
            for node in self.nodes
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in prose
        ]

    @property
    def attributes(self) -> Iterator[Placed]:
        """Dotted names that begin with the package: `inferstream.server.app`."""
        names: dict[str, str] = {}
        for node in self.nodes:
            for alias in node.names if isinstance(node, ast.Import) else ():
                if alias.name.partition(".")[0] == PACKAGE:
                    names[alias.asname or PACKAGE] = alias.name if alias.asname else PACKAGE
        for node in self.nodes if names else ():
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
                first, _, rest = ast.unparse(node).partition(".")
                if first in names:
                    yield f"{names[first]}.{rest}", node.lineno

    @property
    def computed_imports(self) -> Iterator[int]:
        for node in self.nodes:
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in COMPUTED:
                yield node.lineno

    @property
    def mentions(self) -> Iterator[Placed]:
        """Words of plug-ins in names and texts."""
        said = [*self.strings, *((_word(node), getattr(node, "lineno", 0)) for node in self.nodes)]
        for word, line in said:
            for mention in WORDS.findall(word):
                yield mention.lower(), line

    @property
    def long_functions(self) -> Iterator[tuple[int, str]]:
        for node in self.nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or 0) - node.lineno + 1
                if length > LONG:
                    yield length, f"{self.file}:{node.lineno} {node.name}"

    @property
    def settings(self) -> int:
        """Fields of classes of settings."""
        return sum(
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and field.target.id[0] != "_"
            and field.target.id != "model_config"
            for node in ([] if self.is_generated else self.source.tree.body)
            if isinstance(node, ast.ClassDef) and node.bases
            if node.name.endswith("Settings") or self.file.startswith("settings/")
            for field in node.body
        )


def imports_of(module: Module, modules: dict[str, Module]) -> Iterator[tuple[Module, str | None, str]]:
    """Those of some modules that one imports, each with the name that it takes and the place."""
    for home, name, line in module.imports:
        below = modules.get(f"{home}.{name}") if name else None
        other = below or modules.get(home)
        if other is not None:
            yield other, name if below is None else None, f"{module.file}:{line}"


def _bound(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.ImportFrom):
        yield from (alias.asname or alias.name for alias in node.names)
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def _word(node: ast.AST) -> str:
    """The name that a node has; empty for others."""
    if isinstance(node, ast.ImportFrom):
        return node.module or ""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.arg | ast.keyword):
        return node.arg or ""
    named = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.alias
    return node.name if isinstance(node, named) else ""

"""Names of the package: those with two meanings, and retired ones."""

import ast
import re
from collections import defaultdict

from .source import Source

PROMISED = {
    *("Depends", "InferenceError", "MLModel", "SignatureCodec"),
    *("HuggingFaceRuntime", "LightGBMModel", "OnnxModel", "SKLearnModel", "XGBoostModel"),
    *("ModelInferRequestConverter", "ModelInferResponseConverter", "ModelMetadataResponseConverter"),
    *("RepositoryIndexResponseConverter", "RepositoryIndexResponseItemConverter"),
    *("ServerMetadataResponseConverter", "TensorMetadataConverter"),
    *("CustomHandler", "GRPCInferenceServiceStub", "JSONEncoderWithArray", "SingleInputRequestCodec"),
    *("Response", "State"),
}
"""Names of classes that MLServer or BlazeRPC has, and that `compat` or `types` therefore defines again."""

RETIRED = re.compile(r"_*found|(\w*_)?(faces?|follow|followers?|gates?|stretch|stretches)(_\w*)?")
"""Names of variables, attributes and functions that have no meaning, or that of a word in the glossary."""

USERS = re.compile(r"cli/(templates|demo_models)/")
"""Files that are examples of what users write."""


def doubles(sources: list[Source]) -> dict[str, list[str]]:
    """Names of top-level classes that several files define."""
    files = defaultdict(list)
    for source in sources:
        if not USERS.match(source.name):
            for node in source.tree.body:
                if isinstance(node, ast.ClassDef) and node.name not in PROMISED:
                    files[node.name].append(source.name)
    return {name: where for name, where in files.items() if len(where) > 1}


def retired(sources: list[Source]) -> dict[str, list[str]]:
    """Retired names that a file binds, by the file."""
    names = {
        source.name: sorted(
            {name for node in source.nodes if RETIRED.fullmatch((name := _bound_by(node)).lower())}
        )
        for source in sources
        if not USERS.match(source.name)
    }
    return {file: those for file, those in names.items() if those}


def _bound_by(node: ast.AST) -> str:
    """The name that a node binds; empty for others."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return node.name
    if isinstance(node, ast.arg):
        return node.arg
    return (_name(node) or "") if _stores(node) else ""


def _stores(node: ast.AST) -> bool:
    return isinstance(getattr(node, "ctx", None), ast.Store)


def _name(node: ast.AST) -> str | None:
    if isinstance(node, ast.alias):
        return node.name
    return getattr(node, "id", None) or getattr(node, "attr", None)

"""Patterns that the measures look for: questions of a payload, queues and writers by hand, names with two meanings."""

import ast
import re
from collections import defaultdict
from collections.abc import Callable

from .source import Source

PAYLOADS = {"request", "response", "written"}
"""Names of requests and responses, of which `form` says whether they hold values or tensors."""

STORES = {"deque", "Queue", "SimpleQueue"}
WAITS = {"create_future", "Event", "Condition"}
"""A class that makes one that stores and one that waits is a queue written by hand."""

NO_QUEUES = {
    "Console": "the last lines of a screen",
    "Limits": "callers, by their priority",
    "SeveralReplies": "calls that have not begun",
    "MethodCaller": "calls of a pool of threads",
    "Steps": "callers, by their priority",
    "Stream": "flow control of RFC 9113",
    "Turns": "streams that take turns on the loop",
}

GATHERING = {
    *("TOGETHER", "TURN", "TURN_AFTER", "BATCH_BYTES", "OWED_BYTES"),
    *("TOGETHER_BYTES", "TURN_SECONDS", "WAITED_SECONDS"),
}
"""Constants of writers: how much they gather, how long they write on, how much a reader may owe."""

NO_WRITERS = {
    "dataplane/several.py": "seconds that a first response waits for others",
    "server/rest/recording.py": "bytes of a recorded stream",
}

PROMISED = {
    *("Depends", "InferenceError", "MLModel", "SignatureCodec"),
    *("LightGBMModel", "SKLearnModel", "XGBoostModel"),
    *("InferInputTensorConverter", "InferOutputTensorConverter"),
    *("ModelInferRequestConverter", "ModelInferResponseConverter"),
    *("Response", "State"),
}
"""Names of classes that MLServer or BlazeRPC has, and that `compat` or `types` therefore defines again."""

RETIRED = re.compile(r"_*found|(\w*_)?(faces?|follow|followers?|gates?|stretch|stretches)(_\w*)?")
"""Names of variables, attributes and functions that say nothing, or what another word says (docs/glossary.md)."""

USERS = re.compile(r"cli/(templates|demo_models)/")
"""Files that are examples of what users write."""


def kinds_asked(sources: list[Source]) -> int:
    """Reads of `form` of a request or response outside its own classes, which ask what it holds."""
    return _count([source for source in sources if not source.name.startswith("types/")], _asks_kind)


def _asks_kind(node: ast.AST) -> bool:
    read = isinstance(node, ast.Attribute) and node.attr == "form" and isinstance(node.ctx, ast.Load)
    return read and _name(node.value) in PAYLOADS


def classes_switched(sources: list[Source]) -> int:
    """Assignments to `….__class__`."""
    return _count(sources, lambda node: _stores(node) and getattr(node, "attr", None) == "__class__")


def dicts_written(sources: list[Source]) -> int:
    """Assignments to `….__dict__[…]`."""
    return _count(
        sources,
        lambda node: (
            isinstance(node, ast.Subscript)
            and _stores(node)
            and isinstance(node.value, ast.Attribute)
            and node.value.attr == "__dict__"
        ),
    )


def queues(sources: list[Source]) -> list[str]:
    """Files with a class that is a bounded queue written by hand."""
    return [
        source.name
        for source in sources
        if any(_is_queue(node) for node in source.nodes if isinstance(node, ast.ClassDef))
    ]


def _is_queue(cls: ast.ClassDef) -> bool:
    made = {_called(node) for node in ast.walk(cls)}
    return cls.name not in NO_QUEUES and bool(made & STORES and made & WAITS)


def writers(sources: list[Source]) -> list[str]:
    """Files that name a constant of those who gather, flush, and drop who reads nothing."""
    return [
        source.name
        for source in sources
        if source.name not in NO_WRITERS and any(_name(node) in GATHERING for node in source.nodes)
    ]


def cancellations(sources: list[Source]) -> list[str]:
    """Files that say CancelledError, in comments too."""
    return [source.name for source in sources if "CancelledError" in source.text]


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


def bound(sources: list[Source], name: str) -> int:
    """Variables and arguments of this name, once for each place that binds it."""
    return _count(
        sources,
        lambda node: (
            (isinstance(node, ast.Name) and _stores(node) and node.id == name)
            or (isinstance(node, ast.arg) and node.arg == name)
        ),
    )


def _count(sources: list[Source], is_one: Callable[[ast.AST], bool]) -> int:
    return sum(is_one(node) for source in sources for node in source.nodes)


def _stores(node: ast.AST) -> bool:
    return isinstance(getattr(node, "ctx", None), ast.Store)


def _name(node: ast.AST) -> str | None:
    if isinstance(node, ast.alias):
        return node.name
    return getattr(node, "id", None) or getattr(node, "attr", None)


def _called(node: ast.AST) -> str | None:
    """The last part of the name that a call names: `deque` for `collections.deque()`."""
    return _name(node.func) if isinstance(node, ast.Call) else None

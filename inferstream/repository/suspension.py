"""Analyses a coroutine's source: whether it can wait for anything except its requests."""

import ast
import builtins
import dis
import inspect
import logging
import textwrap
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, ModuleType
from typing import Any

from ..functions.model import FunctionModel
from ..model import MLModel, StepModel

logger = logging.getLogger("inferstream.repository")

DEPTH = 8
"""Depth of nested calls that the analysis follows. Deeper calls count as calls that may wait."""

_WAITING = {"GET_AWAITABLE", "GET_AITER", "GET_ANEXT", "BEFORE_ASYNC_WITH"}
_OWN_WRAPPER = "inferstream.codecs.signature"
_UNKNOWN = object()


def never_suspends(model: type[MLModel]) -> bool:
    """Whether a model's inference is `async def` and never yields to the event loop.

    Such a coroutine blocks its loop from its first line to its last. False if the analysis cannot decide. If True is
    wrong, the model still works: the thread that runs it has an event loop.
    """
    if issubclass(model, StepModel):
        return False
    if issubclass(model, FunctionModel):
        return _function_never_suspends(model)
    methods = [
        getattr(model, name)
        for name in ("predict", "predict_stream")
        if getattr(model, name) is not getattr(MLModel, name)
    ]
    written_async = [method for method in methods if is_async(method)]
    return bool(written_async) and not any(may_suspend(method, model) for method in written_async)


def _function_never_suspends(model: type[FunctionModel]) -> bool:
    """The same for a function. Its dependencies that are `def` run in threads, which an event loop waits for."""
    function = model.described
    stream = function.arguments.stream
    requests = [] if stream is None else [stream.name]
    awaited = function.arguments.injection.coroutines
    return (
        function.is_async
        and not may_suspend(function.function, model, requests)
        and not any(may_suspend(each, model, []) for each in awaited)
    )


def is_async(method: Callable[..., Any]) -> bool:
    """Whether a method, under its decorators, is `async def` or an async generator."""
    return _is_async(inspect.unwrap(method))


def may_suspend(function: Callable[..., Any], owner: type, requests: Sequence[str] | None = None) -> bool:
    """Whether a method of `owner` may wait: False only for `async def` code with waits that never suspend.

    `requests` are the names of its arguments that hold the requests: by default the first after `self`.
    """
    try:
        if requests is None:
            requests = _argument_names(inspect.unwrap(function))[1:2]
        return _may_suspend(function, owner, frozenset(requests))
    except Exception as error:  # an analysis that fails must not keep the model from loading
        logger.debug("cannot tell whether %r waits", function, exc_info=error)
        return True


def _may_suspend(function: Callable[..., Any], owner: type, requests: frozenset[str]) -> bool:
    layer: Any = function
    is_async = False
    while True:
        if _is_async(layer):
            is_async = True
            ours = layer.__globals__["__name__"] == _OWN_WRAPPER
            if not ours and _Reader(layer, owner, requests, ()).may_suspend():
                return True
        if not hasattr(layer, "__wrapped__"):
            return not is_async
        layer = layer.__wrapped__


class _Reader:
    """Follows the waits of one function. `requests` are the names of its arguments that hold the requests."""

    def __init__(
        self, function: Any, owner: type, requests: frozenset[str], above: tuple[CodeType, ...]
    ) -> None:
        self._function = function
        self._code: CodeType = function.__code__
        self._owner = owner
        self._requests = requests
        self._above = above

    def may_suspend(self) -> bool:
        if self._code in self._above:
            return False  # the other waits of a recursion decide
        if not any(True for _ in _waits(self._code)):
            return False
        tree = _source(self._function)
        if tree is None or len(self._above) >= DEPTH:
            return True
        return any(not self._is_harmless(wait) for wait in _awaited(tree.body))

    def _is_harmless(self, wait: ast.expr | None) -> bool:
        """Whether this waits for requests, or for a coroutine that never waits."""
        if wait is None:
            return False
        if self._is_requests(wait):
            return True
        if not isinstance(wait, ast.Call):
            return False
        callee = wait.func
        if isinstance(callee, ast.Attribute) and self._is_requests(callee.value):
            return callee.attr in ("__anext__", "__aiter__")
        target = self._resolve(callee)
        if target in (anext, aiter):
            return bool(wait.args) and self._is_harmless(wait.args[0])
        return self._follows(target, wait)

    def _follows(self, target: Any, call: ast.Call) -> bool:
        function = inspect.unwrap(getattr(target, "__func__", target)) if callable(target) else None
        if not _is_async(function):
            return False
        names = _argument_names(function)
        bound = isinstance(call.func, ast.Attribute) and names[:1] in (["self"], ["cls"])
        passed = zip(names[1:] if bound else names, call.args, strict=False)
        requests = frozenset(name for name, argument in passed if self._is_requests(argument))
        return not _Reader(function, self._owner, requests, (*self._above, self._code)).may_suspend()

    def _is_requests(self, expression: ast.expr) -> bool:
        return isinstance(expression, ast.Name) and expression.id in self._requests

    def _resolve(self, expression: ast.expr) -> Any:
        """The object that an expression names, as far as it is known before the code runs."""
        if isinstance(expression, ast.Name):
            return self._look_up(expression.id)
        if not isinstance(expression, ast.Attribute):
            return _UNKNOWN
        of = expression.value
        if isinstance(of, ast.Name) and of.id == "self" and self._code.co_varnames[:1] == ("self",):
            return inspect.getattr_static(self._owner, expression.attr, _UNKNOWN)
        if isinstance(of, ast.Call) and isinstance(of.func, ast.Name) and of.func.id == "super":
            return self._inherited(expression.attr)
        target = self._resolve(of)
        if isinstance(target, ModuleType | type):  # without running their code, which may import or raise
            return inspect.getattr_static(target, expression.attr, _UNKNOWN)
        return _UNKNOWN

    def _look_up(self, name: str) -> Any:
        if name in self._code.co_varnames:
            return _UNKNOWN
        if name in self._code.co_freevars:
            cell = self._function.__closure__[self._code.co_freevars.index(name)]
            try:
                return cell.cell_contents
            except ValueError:
                return _UNKNOWN
        return self._function.__globals__.get(name, getattr(builtins, name, _UNKNOWN))

    def _inherited(self, name: str) -> Any:
        """The attribute that `super()` finds from the class of this method."""
        mro = self._owner.__mro__
        for index, holder in enumerate(mro):
            if any(getattr(value, "__code__", None) is self._code for value in vars(holder).values()):
                for base in mro[index + 1 :]:
                    if name in vars(base):
                        return vars(base)[name]
        return _UNKNOWN


def _is_async(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def _argument_names(function: Any) -> list[str]:
    code = getattr(function, "__code__", None)
    return list(code.co_varnames[: code.co_argcount]) if code is not None else []


def _waits(code: CodeType) -> Iterator[str]:
    """The instructions that wait, of a function and of the comprehensions in it."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in _WAITING:
            yield instruction.opname
    for constant in code.co_consts:
        if isinstance(constant, CodeType) and constant.co_name.endswith("comp>"):
            yield from _waits(constant)


def _source(function: Any) -> ast.AsyncFunctionDef | None:
    """The source of the function; None if it is missing or has changed."""
    try:
        text = textwrap.dedent(inspect.getsource(function.__code__))
        tree = ast.parse(text if text[:1] != " " else f"if 1:\n{text}").body[0]
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    if isinstance(tree, ast.If):
        tree = tree.body[0]
    if not isinstance(tree, ast.AsyncFunctionDef) or tree.name != function.__code__.co_name:
        return None
    return tree


def _awaited(nodes: list[Any]) -> Iterator[ast.expr | None]:
    """The expression of each wait in this code; None for a wait that cannot be analysed."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            continue
        if isinstance(node, ast.Await):
            yield node.value if isinstance(node.value, ast.Call) else None
        elif isinstance(node, ast.AsyncFor):
            yield node.iter
        elif isinstance(node, ast.AsyncWith):
            yield None
        elif isinstance(node, ast.comprehension) and node.is_async:
            yield node.iter
        yield from _awaited(list(ast.iter_child_nodes(node)))

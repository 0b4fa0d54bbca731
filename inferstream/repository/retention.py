"""Analyses a model's class: whether its inference keeps objects from one call to the next."""

import inspect
import logging
from collections.abc import Iterator
from dis import get_instructions
from types import CodeType, FunctionType, ModuleType
from typing import Any

from ..functions.function import Function
from ..functions.model import FunctionModel
from ..model import MLModel
from .suspension import DEPTH

_STORES = {"STORE_ATTR", "STORE_GLOBAL", "STORE_SUBSCR", "DELETE_ATTR", "DELETE_GLOBAL", "DELETE_SUBSCR"}
_PLAIN = (str, bytes, int, float, complex, bool, type(None), logging.Logger)
_PACKAGES = """
inferstream mlserver numpy builtins abc asyncio base64 bisect collections copy dataclasses datetime decimal enum
fractions functools hashlib heapq io itertools json logging math operator os pathlib random re statistics string
struct sys textwrap threading time types typing uuid
"""
_UNBOUND = frozenset(_PACKAGES.split())
"""Packages with modules and classes that are bound to no thread and no event loop."""
_LIFE = ("__init__", "load", "unload", "metadata")


def keeps_nothing(model: type[MLModel]) -> bool:
    """Whether a model can run in different threads because it shares no object between them.

    True for a class that overrides only inference, with code that stores nothing outside of its local variables.
    False if the analysis cannot decide.
    """
    if any(getattr(model, name) is not getattr(MLModel, name) for name in _LIFE):
        return False
    if issubclass(model, FunctionModel):
        return _function_keeps_nothing(model.described)
    own = [
        base
        for base in model.__mro__
        if not base.__module__.startswith("inferstream.") and base is not object
    ]
    try:
        return not any(
            _may_keep(value, ())
            for base in own
            for name, value in vars(base).items()
            if not (name.startswith("__") and name.endswith("__"))
        )
    except Exception:  # names may refer to objects that raise when they are read
        return False


def _function_keeps_nothing(function: Function) -> bool:
    """The same for a function, without arguments that it shares with other calls."""
    try:
        return not (function.arguments.injection.shares or _may_keep(function.function, ()))
    except Exception:  # names may refer to objects that raise when they are read
        return False


def _may_keep(value: Any, above: tuple[CodeType, ...]) -> bool:
    """Whether a value that inference can read may keep an object: false for constants and code that keeps nothing."""
    if isinstance(value, staticmethod | classmethod):
        value = value.__func__
    if isinstance(value, property):
        return any(_may_keep(part, above) for part in (value.fget, value.fset) if part is not None)
    if isinstance(value, _PLAIN) or inspect.isbuiltin(value):
        return False
    if isinstance(value, tuple | frozenset):
        return any(_may_keep(part, above) for part in value)
    if isinstance(value, type | ModuleType):
        home = value.__name__ if isinstance(value, ModuleType) else value.__module__
        return home.partition(".")[0] not in _UNBOUND
    if not isinstance(value, FunctionType):
        return True
    if value.__globals__["__name__"].startswith("inferstream.") or value.__code__ in above:
        return False if not hasattr(value, "__wrapped__") else _may_keep(value.__wrapped__, above)
    return len(above) >= DEPTH or _function_may_keep(value, above)


def _function_may_keep(function: FunctionType, above: tuple[CodeType, ...]) -> bool:
    code = function.__code__
    codes = [*_codes(code)]
    if any(instruction.opname in _STORES for one in codes for instruction in get_instructions(one)):
        return True
    reached = [
        function.__globals__[name] for one in codes for name in one.co_names if name in function.__globals__
    ]
    reached += [cell.cell_contents for cell in function.__closure__ or ()]
    reached += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    return any(_may_keep(value, (*above, code)) for value in reached)


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code of a function, and of the functions in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)

"""An import finder for modules of other servers. It only applies if the real packages are not installed."""

import sys
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from pkgutil import resolve_name
from threading import Lock
from types import FunctionType, ModuleType
from typing import Any, ClassVar

from ..errors import Unsupported
from ..extensions import entries, loading
from .table import Instead, Late, Target

_installing = Lock()

TABLES: list[Any] = []
"""The modules of extensions that define a table."""

MODULES: dict[str, dict[str, Target]] = {}
"""All tables, merged."""


class Finder(MetaPathFinder, Loader):
    """Finds the packages in the tables and their modules, unless the real package is installed.

    A folder without code that has a package's name, such as a model folder, does not count as installed.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in MODULES:
            return None
        package = fullname.rpartition(".")[0]
        if package:
            made_here = isinstance(getattr(sys.modules.get(package), "__loader__", None), Finder)
            return self._spec(fullname) if made_here else None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(fullname, None, None)
            if spec is not None and spec.origin is not None:
                return spec
        return self._spec(fullname)

    def _spec(self, module: str) -> ModuleSpec:
        is_package = any(other.startswith(f"{module}.") for other in MODULES)
        spec = ModuleSpec(module, self, origin=str(_file(module)), is_package=is_package)
        spec.has_location = True  # sets the module's `__file__`
        return spec

    def exec_module(self, module: ModuleType) -> None:
        targets = MODULES[module.__name__]
        late = {name: target for name, target in targets.items() if isinstance(target, Late)}
        for name, target in targets.items():
            if name not in late:
                setattr(module, name, _resolve_target(module.__name__, name, target))
        module.__doc__ = f"A module of {_table(module.__name__).PRODUCT}, made of inferstream's."
        vars(module).update(
            __all__=[name for name in targets if name[0] != "_" or name == "__version__"],
            __getattr__=_build_getattr(module, late),
        )


def load_tables(strict: bool = False) -> None:
    """Load the tables of extensions.

    An unusable table is skipped, or raises InvalidSettings if `strict` is set.
    """
    for plugin, table in loading.load_group(entries.MODULES, strict):
        if table in TABLES:
            continue
        if not isinstance(getattr(table, "MODULES", None), dict):
            loading.leave_out(plugin, "it has no table MODULES", strict)
            continue
        TABLES.append(table)
        MODULES.update({name: entries for name, entries in table.MODULES.items() if name not in MODULES})


def install() -> None:
    """Make the modules in the tables importable under their original names, for example `import mlserver`."""
    if _has_finder():
        return
    load_tables()
    with _installing:  # models load in multiple threads
        if not _has_finder():
            sys.meta_path.insert(0, Finder())


def _has_finder() -> bool:
    return any(isinstance(finder, Finder) for finder in sys.meta_path)


def _table(module: str) -> Any:
    return next(table for table in TABLES if module in table.MODULES)


def _file(module: str) -> Path:
    """Return the file that implements a module, for `inspect`.

    Returns the table's file for a module without code.
    """
    table = _table(module)
    own = f"{table.__package__}."
    for target in MODULES[module].values():
        if isinstance(target, str) and target.startswith(own):
            home = target.removeprefix(own).partition(":")[0]
            return Path(table.__file__).parent / f"{home.replace('.', '/')}.py"
    return Path(table.__file__)


def _resolve_target(module: str, name: str, target: Target) -> Any:
    """Return the object that a name refers to.

    Raises ImportError if it needs a library that is not installed.
    """
    if isinstance(target, Instead):
        return type(name, (Replaced,), {"__module__": module, "instead": target.sentence})
    path = target if isinstance(target, str) else target.target
    home, _, attributes = path.partition(":")
    table = _table(module)
    if home.startswith(f"{table.__package__}."):
        _rename(table, home)
    return resolve_name(f"{home}:{attributes or name}")


@cache
def _rename(table: Any, home: str) -> None:
    """Set `__module__` of our classes and functions to the module that they replace.

    Pickles, tracebacks and settings files contain this name.
    """
    modules: dict[str, dict[str, Target]] = table.MODULES
    ours = import_module(home)
    for module, targets in modules.items():
        for name in (name for name, target in targets.items() if target == home):
            value = getattr(ours, name)
            if isinstance(value, type | FunctionType) and value.__module__ == ours.__name__:
                _move(value, module)


def _move(value: type | FunctionType, module: str) -> None:
    """Set `__module__`, and keep `__firstlineno__`, which Python 3.13 deletes and `inspect` needs."""
    line = vars(value).get("__firstlineno__")
    value.__module__ = module
    if line is not None:
        value.__firstlineno__ = line  # type: ignore[union-attr]


def _build_getattr(module: ModuleType, late: dict[str, Late]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module, which imports lazy targets and submodules."""

    def find(name: str) -> Any:
        if name in late:
            value = _resolve_target(module.__name__, name, late[name])
            setattr(module, name, value)
            return value
        if f"{module.__name__}.{name}" in MODULES:
            return import_module(f"{module.__name__}.{name}")
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

    return find


class Sentence(type):
    """The metaclass of `Replaced`. The error for a missing attribute names the replacement."""

    instead: str

    def __getattr__(cls, name: str) -> Any:
        raise AttributeError(_sentence(cls, cls.__dict__.get("instead", "")))


class Replaced(metaclass=Sentence):
    """A class that can only be used in annotations and `isinstance`.

    Its constructor raises Unsupported with the replacement.
    """

    instead: ClassVar[str]

    def __init__(self, *_: Any, **__: Any) -> None:
        raise Unsupported(_sentence(type(self), self.instead))


def _sentence(replaced: type, instead: str) -> str:
    module = replaced.__module__
    product = _table(module).PRODUCT if module in MODULES else "another server"
    return f"{module}.{replaced.__name__} is a part of {product} that inferstream does not have: {instead}."

"""Makes the modules of other servers from the tables of their names, if the real packages are not installed."""

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

from .. import extensions
from ..errors import Unsupported
from .table import Instead, Late, Target

OURS = f"{__package__}."

_installing = Lock()

TABLES: list[Any] = []
"""The modules with tables that extensions bring."""

MODULES: dict[str, dict[str, Target]] = {}
"""All tables in one."""


class Finder(MetaPathFinder, Loader):
    """Finds the packages and their modules. An installed package wins, with all its modules.

    A folder without code and with a package's name, such as a model's folder, does not win.
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
        spec.has_location = True  # gives the module its `__file__`
        return spec

    def exec_module(self, module: ModuleType) -> None:
        targets = MODULES[module.__name__]
        late = {name: target for name, target in targets.items() if isinstance(target, Late)}
        for name, target in targets.items():
            if name not in late:
                setattr(module, name, _value_of(module.__name__, name, target))
        module.__doc__ = f"A module of {_table(module.__name__).PRODUCT}, made of inferstream's."
        vars(module).update(
            __all__=[name for name in targets if name[0] != "_" or name == "__version__"],
            __getattr__=_on_first_use(module, late),
        )


def load_tables(strict: bool = False) -> None:
    """Load the tables of extensions. Raises InvalidSettings for one that cannot be used where `strict`."""
    for plugin, table in extensions.loaded(extensions.MODULES, strict):
        if table in TABLES:
            continue
        if not isinstance(getattr(table, "MODULES", None), dict):
            extensions.leave_out(plugin, "it has no table MODULES", strict)
            continue
        TABLES.append(table)
        MODULES.update({name: entries for name, entries in table.MODULES.items() if name not in MODULES})


def install() -> None:
    """Make modules of other servers importable by the names in the tables, as `import mlserver`."""
    if _is_installed():
        return
    load_tables()
    with _installing:  # models load in several threads
        if not _is_installed():
            sys.meta_path.insert(0, Finder())


def _is_installed() -> bool:
    return any(isinstance(finder, Finder) for finder in sys.meta_path)


def _table(module: str) -> Any:
    return next(table for table in TABLES if module in table.MODULES)


def _file(module: str) -> Path:
    """The file with the code of a module, for `inspect`; the file of the table if the module has no code."""
    for target in MODULES[module].values():
        if isinstance(target, str) and target.startswith(OURS):
            home = target.removeprefix(OURS).partition(":")[0]
            return Path(__file__).parent / f"{home.replace('.', '/')}.py"
    return Path(_table(module).__file__)


def _value_of(module: str, name: str, target: Target) -> Any:
    """The object of a name. Raises ImportError if it needs a library that is not installed."""
    if isinstance(target, Instead):
        return type(name, (Replaced,), {"__module__": module, "instead": target.sentence})
    path = target if isinstance(target, str) else target.target
    home, _, attributes = path.partition(":")
    if home.startswith(OURS):
        _rename(_table(module), home)
    return resolve_name(f"{home}:{attributes or name}")


@cache
def _rename(table: Any, home: str) -> None:
    """Set `__module__` of our classes and functions to theirs, for pickles, tracebacks and settings files."""
    modules: dict[str, dict[str, Target]] = table.MODULES
    ours = import_module(home)
    for module, entries in modules.items():
        for name in (name for name, target in entries.items() if target == home):
            value = getattr(ours, name)
            if isinstance(value, type | FunctionType) and value.__module__ == ours.__name__:
                _move(value, module)


def _move(value: type | FunctionType, module: str) -> None:
    """Set `__module__`. From Python 3.13 on, a class then forgets its first line, and nobody finds its source."""
    line = vars(value).get("__firstlineno__")
    value.__module__ = module
    if line is not None:
        value.__firstlineno__ = line  # type: ignore[union-attr]


def _on_first_use(module: ModuleType, late: dict[str, Late]) -> Callable[[str], Any]:
    """The `__getattr__` of a module. It imports late targets, and submodules."""

    def find(name: str) -> Any:
        if name in late:
            value = _value_of(module.__name__, name, late[name])
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
    """A class for annotations and `isinstance` only. Its constructor raises Unsupported with the replacement."""

    instead: ClassVar[str]

    def __init__(self, *_: Any, **__: Any) -> None:
        raise Unsupported(_sentence(type(self), self.instead))


def _sentence(replaced: type, instead: str) -> str:
    module = replaced.__module__
    product = _table(module).PRODUCT if module in MODULES else "another server"
    return f"{module}.{replaced.__name__} is a part of {product} that inferstream does not have: {instead}."

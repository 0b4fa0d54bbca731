"""Makes MLServer's modules from the table of names, if the real packages are not installed."""

import sys
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from pkgutil import resolve_name
from types import FunctionType, ModuleType
from typing import Any, ClassVar

from ..errors import Unsupported
from . import names
from .names import MODULES, Instead, Late, Target

OURS = f"{__package__}.mlserver"
"""The package of targets that begin with a dot."""


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
                setattr(module, name, _found(module.__name__, name, target))
        module.__doc__ = "A module of MLServer, made of inferstream's."
        vars(module).update(
            __all__=[name for name in targets if name[0] != "_" or name == "__version__"],
            __getattr__=_on_first_use(module, late),
        )


def install() -> None:
    """Make `import mlserver` work."""
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, Finder())


def _file(module: str) -> Path:
    """The file with the code of a module, for `inspect`; the file of the table if the module has no code."""
    for target in MODULES[module].values():
        if isinstance(target, str) and target[0] == ".":
            return Path(__file__).parent.joinpath("mlserver", f"{target[1:].partition(':')[0]}.py")
    return Path(names.__file__)


def _found(module: str, name: str, target: Target) -> Any:
    """The object of a name. Raises ImportError if it needs a library that is not installed."""
    if isinstance(target, Instead):
        return type(name, (Replaced,), {"__module__": module, "instead": target.sentence})
    path = target if isinstance(target, str) else target.target
    home, _, attributes = path.partition(":")
    if home[0] == ".":
        _rename(home)
        home = OURS + home
    return resolve_name(f"{home}:{attributes or name}")


@cache
def _rename(home: str) -> None:
    """Set `__module__` of our classes and functions to MLServer's, for pickles, tracebacks and settings files."""
    ours = import_module(OURS + home)
    for module, entries in MODULES.items():
        for name in (name for name, target in entries.items() if target == home):
            value = getattr(ours, name)
            if isinstance(value, type | FunctionType) and value.__module__ == ours.__name__:
                value.__module__ = module


def _on_first_use(module: ModuleType, late: dict[str, Late]) -> Callable[[str], Any]:
    """The `__getattr__` of a module. It imports late targets, and submodules, which MLServer imports eagerly."""

    def find(name: str) -> Any:
        if name in late:
            value = _found(module.__name__, name, late[name])
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
        raise AttributeError(_sentence(f"{cls.__module__}.{cls.__name__}", cls.__dict__.get("instead", "")))


class Replaced(metaclass=Sentence):
    """A class for annotations and `isinstance` only. Its constructor raises Unsupported with the replacement."""

    instead: ClassVar[str]

    def __init__(self, *_: Any, **__: Any) -> None:
        raise Unsupported(_sentence(f"{type(self).__module__}.{type(self).__name__}", self.instead))


def _sentence(name: str, instead: str) -> str:
    return f"{name} is a part of MLServer that inferstream does not have: {instead}."

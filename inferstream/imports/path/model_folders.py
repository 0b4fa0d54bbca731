"""Imports each model folder under a package name of its own, so models may have modules of the same name.

`/models/iris/utils.py` is imported as `model_folders._2fmodels_2firis.utils`. The name contains the path, so pickles of
its classes and functions also work in the processes of a pool. For them, the folder of this file is on `sys.path`, and
it needs only the standard library.
In modules of a model folder, `import utils` finds the folder's own module first. Pickles of training scripts contain
plain names (`utils`, `__main__`). These stand for the modules of the model whose code is on the stack, or that loads.
"""

import builtins
import importlib
import os
import pickle
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, wraps
from importlib import _bootstrap
from importlib.abc import MetaPathFinder
from importlib.machinery import BuiltinImporter, FrozenImporter, ModuleSpec, PathFinder
from types import CodeType, FrameType, ModuleType
from typing import Any

__path__: list[str] = []  # makes this module a package

PREFIX = "model_folders."

IMPORT_SYSTEM = ("importlib", "importlib._bootstrap", "inferstream.imports.folders", __name__)
"""Modules whose frames are between an import and the code that asks for it."""

FIND_CLASS: CodeType = pickle._Unpickler.find_class.__code__
"""The code that looks up names for unpicklers in Python, such as joblib's."""

_loading: ContextVar[str] = ContextVar("model_folder_loading", default="")
"""The package of the model that loads here."""

_mains: dict[str, dict[str, Any]] = {}
"""What the code of each package has set in `__main__`."""


def package_of(folder: str) -> str:
    """The package name of a model folder."""
    return PREFIX + re.sub(
        r"[^a-zA-Z0-9]", lambda char: "".join(f"_{byte:02x}" for byte in os.fsencode(char[0])), folder
    )


def folder_of(package: str) -> str:
    """The model folder of a package name."""
    key = package.removeprefix(PREFIX).encode()
    return os.fsdecode(re.sub(rb"_([0-9a-f]{2})", lambda code: bytes.fromhex(code[1].decode()), key))


def plain_name(module: str) -> str:
    """The name of a module in its model folder."""
    return module.split(".", 2)[2] if module.startswith(PREFIX) else module


def import_own(package: str, name: str) -> ModuleType:
    """Import the module `name` of a package. Raises ModuleNotFoundError with the plain name."""
    try:
        return importlib.import_module(f"{package}.{name}")
    except ModuleNotFoundError as error:
        plain = (error.name or "").removeprefix(f"{package}.")
        if plain == error.name:
            raise
        raise ModuleNotFoundError(f"No module named {plain!r}", name=plain) from None


def owns(package: str, name: str) -> bool:
    """Whether a module belongs to the folder of a package.

    As everywhere in Python, built-in modules go before, and so do installed packages before a folder without code.
    """
    top = name.partition(".")[0]
    folder = folder_of(package)
    try:
        changed = os.stat(folder).st_mtime_ns
    except OSError:
        return False
    return top in _own_names(folder, changed)


@lru_cache(maxsize=1024)
def _own_names(folder: str, changed: int) -> frozenset[str]:
    names = {entry.partition(".")[0] for entry in os.listdir(folder)} - {"", "__main__", "__pycache__"}
    return frozenset(name for name in names if _is_own(folder, name))


def _is_own(folder: str, name: str) -> bool:
    if BuiltinImporter.find_spec(name) or FrozenImporter.find_spec(name):
        return False
    spec = PathFinder.find_spec(name, [folder])
    if spec is None or spec.loader is not None:
        return spec is not None
    other = _bootstrap._find_spec(name, None)  # type: ignore[attr-defined]
    return other is None or other.loader is None


@contextmanager
def loading_from(folder: str) -> Iterator[None]:
    """Resolve plain names in pickles for the model of this folder, in the block and what it starts."""
    token = _loading.set(package_of(folder))
    try:
        yield
    finally:
        _loading.reset(token)


def _package_in(namespace: Any) -> str:
    """The package of the code with these globals; empty for other code."""
    name = namespace.get("__name__")
    if not isinstance(name, str) or not name.startswith(PREFIX):
        return ""
    return PREFIX + name[len(PREFIX) :].partition(".")[0]


def _owner() -> str:
    """The package of the innermost model code on the stack, or else of the model that loads; empty if unknown."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if package := _package_in(frame.f_globals):
            return package
        frame = frame.f_back
    return _loading.get()


def _owner_of(name: str) -> str:
    """The package that the plain `name` stands for here; empty if no model has it.

    Raises ImportError if several have one, and nothing says which is meant.
    """
    if (owner := _owner()) and owns(owner, name):
        return owner
    candidates = [package for package in _packages() if owns(package, name)]
    if not candidates or _elsewhere(name):
        return ""
    if owner:
        where = f"the model in {folder_of(owner)} has none"
    elif len(candidates) > 1:
        where = "import it in model code, and not in a thread that only unpickles"
    else:
        return candidates[0]
    files = ", ".join(os.path.join(folder_of(package), name.partition(".")[0]) for package in candidates)
    raise ImportError(f"the module {name} is one of a model ({files}); {where}", name=name)


def _packages() -> list[str]:
    return [name for name in [*sys.modules] if name.startswith(PREFIX) and name.count(".") == 1]


def _elsewhere(name: str) -> str:
    """The file of the module of this plain name outside of model folders; empty if there is none."""
    top = name.partition(".")[0]
    module = sys.modules.get(top)
    if isinstance(module, PlainName):
        return ""
    spec = getattr(module, "__spec__", None) if module else _bootstrap._find_spec(top, None)  # type: ignore[attr-defined]
    origin = str(getattr(spec, "origin", None) or module or spec or "")
    return "" if package_of(os.path.dirname(origin)) in sys.modules else origin


class ModelFolderFinder(MetaPathFinder):
    """Finds model folders, and the modules in them."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(PREFIX) or fullname.count(".") > 1:
            return None
        spec = ModuleSpec(fullname, None, is_package=True)
        spec.submodule_search_locations = [folder_of(fullname)]
        return spec


class PlainName(ModuleType):
    """Stands in `sys.modules` for the modules of one name in model folders. Unpicklers look there."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            package = _owner_of(self.__name__)
        except ImportError as error:
            raise AttributeError(str(error)) from None
        if not package:
            raise AttributeError(f"no model has a module {self.__name__}")
        return getattr(import_own(package, self.__name__), name)


class Main(ModuleType):
    """The class of `__main__`. Each model sets its own attributes, and finds the classes of its training script."""

    def __setattr__(self, name: str, value: Any) -> None:
        if owner := _owner():
            _mains.setdefault(owner, {})[name] = value
        else:
            super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not (owner := _owner()):
            raise AttributeError(f"module '__main__' has no attribute {name!r}")
        if name in (own := _mains.get(owner, {})):
            return own[name]
        modules = [vars(module) for key, module in [*sys.modules.items()] if key.startswith(f"{owner}.")]
        having = [names for names in modules if name in names]
        if having and (having[0] is modules[0] or len({id(names[name]) for names in having}) == 1):
            return having[0][name]  # the first is the model's own module
        many = "several modules have it" if having else "no module has it"
        raise AttributeError(
            f"a pickle needs {name} of __main__, and in {folder_of(owner)} {many}; import it in the model's module"
        )


def _stand_in(name: str) -> bool:
    """Let `sys.modules` have the plain name of a model's module; False if no model has it.

    Raises ImportError if the name means another module too.
    """
    package = _owner_of(name)
    if not package or isinstance(sys.modules.get(name), PlainName):
        return bool(package)
    if other := _elsewhere(name):
        own = import_own(package, name).__file__
        raise ImportError(
            f"a pickle refers to {name}, which is {own} and {other}; give one of them another name"
        )
    import_own(package, name)
    sys.modules[name] = PlainName(name)
    return True


def _import_for(importer: Any, name: str, fromlist: Any) -> Any:
    """Import for a statement in code with these globals. The top module is the result if there is no `fromlist`."""
    package = _package_in(importer)
    if not package or not owns(package, name):
        return None
    import_own(package, name)
    full = f"{package}.{name}" if fromlist else f"{package}.{name.partition('.')[0]}"
    return _import(full, None, None, fromlist or ("__name__",), 0)


_import = builtins.__import__


def import_module_for_code(
    name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
) -> Any:
    """Replace `builtins.__import__`."""
    if level == 0:
        # An empty list is what C code passes, such as the unpickler. It then reads `sys.modules`.
        frame = sys._getframe(1)
        if fromlist == [] or (globals is None and frame.f_code is FIND_CLASS):
            if _stand_in(name):
                return sys.modules[name]
        elif (module := _import_for(globals or frame.f_globals, name, fromlist)) is not None:
            return module
    module = _import(name, globals, locals, fromlist, level)
    if isinstance(module, PlainName):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return module


def _find_and_load(find: Any) -> Any:
    """Wrap the import system's function, which `importlib.import_module` calls."""

    @wraps(find)
    def find_and_load(name: str, import_: Any) -> Any:
        if name.startswith(PREFIX):
            return find(name, import_)
        frame: FrameType | None = sys._getframe(1)
        dynamic = False
        while frame is not None and (code := frame.f_globals.get("__name__")) in IMPORT_SYSTEM:
            dynamic = dynamic or code == "importlib"
            frame = frame.f_back
        package = _package_in(frame.f_globals) if frame is not None else ""
        if package and owns(package, name):
            return import_own(package, name)
        try:
            module = find(name, import_)
            if not isinstance(module, PlainName):
                return module
            package = _owner_of(name)
        except ModuleNotFoundError as error:
            if not dynamic or error.name != name or not (package := _owner_of(name)):
                raise
        return import_own(package, name)

    return find_and_load


def install() -> None:
    """Replace what import statements and `importlib.import_module` call, once in each process."""
    if builtins.__import__ is import_module_for_code:
        return
    here = os.path.dirname(__file__)
    if here not in sys.path:
        sys.path.append(here)
    sys.meta_path.insert(0, ModelFolderFinder())
    builtins.__import__ = import_module_for_code
    _bootstrap._find_and_load = _find_and_load(_bootstrap._find_and_load)  # type: ignore[attr-defined]
    sys.modules["__main__"].__class__ = Main


sys.modules.setdefault("model_folders", sys.modules[__name__])
if __name__ == "model_folders":  # in a process of a pool
    install()

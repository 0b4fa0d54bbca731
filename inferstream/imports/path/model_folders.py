"""Import of each model folder under a unique package name, so models can have modules with the same name.

`/models/iris/utils.py` is imported as `model_folders._2fmodels_2firis.utils`. The name contains the path, so
pickles of its classes and functions also work in the processes of a pool. For them, the folder of this file
is on `sys.path`, and it only needs the standard library.

In modules of a model folder, `import utils` first finds the folder's own module, then modules in subfolders
that are on `sys.path`, imported as `model_folders._2fmodels_2firis._2fmodels_2firis_2fsrc.utils`.

Pickles written by training scripts contain plain names (`utils`, `__main__`). They refer to the modules of
the model whose code is on the stack or that is being loaded.
"""

import builtins
import importlib
import os
import pickle
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, wraps
from importlib import _bootstrap
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import CodeType, FrameType, ModuleType
from typing import TYPE_CHECKING, Any

if __package__:
    from . import folder_lookups as lookups
    from . import owned_folders as owned
else:  # in a pool process
    import folder_lookups as lookups  # type: ignore[import-not-found,no-redef]
    import owned_folders as owned  # type: ignore[import-not-found,no-redef]

if TYPE_CHECKING:
    from importlib.metadata import Distribution

__path__: list[str] = []  # turns this module into a package

IMPORT_SYSTEM = ("importlib", "importlib._bootstrap", "inferstream.imports.folders", __name__)
"""Modules whose frames are between an import and the code that requests it."""

FIND_CLASS: CodeType = pickle._Unpickler.find_class.__code__
"""The function that looks up names in pure Python unpicklers, for example in joblib."""

INSTALLED_IN = ("site-packages", "dist-packages")
"""The names of folders with installed packages. Debian uses the second one."""

_loading: ContextVar[str] = ContextVar("model_folder_loading", default="")
"""The package of the model that is being loaded in this context."""

_mains: dict[str, dict[str, Any]] = {}
"""The attributes that the code of each package has set in `__main__`."""

_programs: dict[str, bool] = {}
"""Whether the module of each plain name belongs to the program, not to a model.

Contains the modules imported before `install`, and modules inside model folders.
"""


def import_own(package: str, name: str) -> ModuleType:
    """Import the module `name` of a package. Raises ModuleNotFoundError with the plain name."""
    try:
        return importlib.import_module(f"{package}.{name}")
    except ModuleNotFoundError as error:
        plain = (error.name or "").removeprefix(f"{package}.")
        if plain == error.name:
            raise
        raise ModuleNotFoundError(f"No module named {plain!r}", name=plain) from None


@contextmanager
def loading_from(folder: str, artefact: str = "") -> Iterator[None]:
    """Resolve plain names in pickles for the model in this folder, in the block and in tasks that it starts.

    Folders on `sys.path` below `artefact`, the folder of the model's files, also belong to the model.
    """
    package = owned.package_name(folder)
    owned.packages.setdefault(package, {package: None})
    if artefact and owned.artefacts.get(package) != artefact:
        owned.artefacts[package] = artefact
        owned.path_prefixes.cache_clear()
    token = _loading.set(package)
    try:
        yield
    finally:
        _loading.reset(token)


def find_package(package: str, name: str) -> str:
    """Return the package of the module to which `name` refers in the code of `package`, or "" without one."""
    owning = next(iter(owned.find_packages(package, name)), "")
    is_imported = owning != package and name.partition(".")[0] in sys.modules and _find_outside_file(name)
    return "" if is_imported else owning


def _package_in(namespace: Any) -> str:
    """Return the package of the code with these globals, or "" if it is not model code."""
    name = namespace.get("__name__")
    if name == "__main__":  # code from a pickle
        return _loading.get()
    if not isinstance(name, str) or not name.startswith(owned.PREFIX):
        package = _package_with(str(namespace.get("__file__"))) if owned.packages else ""
        return "" if package and _belongs_to_program(name, namespace) else package
    return owned.PREFIX + name[len(owned.PREFIX) :].partition(".")[0]


@lru_cache(maxsize=4096)
def _package_with(file: str) -> str:
    """Return the package of code that was imported by its file path, or "" if it is not model code."""
    if any(name in file for name in INSTALLED_IN) or file.startswith(owned.NEVER_OF_A_MODEL):
        return ""
    packages = [each for each in [*owned.packages] if file.startswith(owned.path_prefixes(each))]
    return max(packages, key=lambda each: (file.startswith(owned.find_folder(each)), len(each)), default="")


def _belongs_to_program(name: Any, namespace: Any) -> bool:
    """Whether the module with these globals belongs to the program, not to a model.

    It does if no model code was on the stack when the module was first seen. A program that serves models may
    have its own code, such as tests, in or below a model folder.
    """
    if getattr(_plain_module(name), "__dict__", None) is not namespace:
        return False  # executed by its file path
    if name not in _programs:
        _programs[name] = True  # set first, because `_owner` walks the stack and calls this function
        _programs[name] = not _owner()
    return _programs[name]


def _owner() -> str:
    """Return the package of the innermost model code on the stack, or of the model being loaded.

    Returns "" if there is neither.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if package := _package_in(frame.f_globals):
            return package
        frame = frame.f_back
    return _loading.get()


def _find_owner(name: str) -> str:
    """Return the package with the module that a plain name refers to here, or "" if no model has it.

    Raises ImportError if several models have one and the name is ambiguous.
    """
    if (owner := _owner()) and (owning := find_package(owner, name)):
        return owning
    candidates = [owning for package in [*owned.packages] if (owning := find_package(package, name))]
    if not candidates or _find_outside_file(name) or (not owner and _plain_module(name)):
        return ""
    if owner:
        where = f"the model in {owned.find_folder(owner)} has none"
    elif len(candidates) > 1:
        where = "import it in model code, and not in a thread that only unpickles"
    else:
        return candidates[0]
    files = ", ".join(os.path.join(owned.find_folder(each), name.partition(".")[0]) for each in candidates)
    raise ImportError(f"the module {name} is one of a model ({files}); {where}", name=name)


def _full_name(name: str) -> str:
    """Return the name in `sys.modules` of the module to which `name` refers in the calling code."""
    owner = "" if name.startswith((".", owned.PREFIX)) else _owner()
    owning = find_package(owner, name) if owner else ""
    return f"{owning}.{name}" if owning else name


def _plain_module(name: str) -> ModuleType | None:
    """Return the module that the program itself imported under this name, or None."""
    module = sys.modules.get(name)
    return module.plain if isinstance(module, PlainName) else module


def _find_outside_file(name: str) -> str:
    """Return the file of the module with this plain name outside model folders, or ""."""
    top = name.partition(".")[0]
    module = sys.modules.get(top)
    if isinstance(module, PlainName):
        return ""
    spec = getattr(module, "__spec__", None) if module else _bootstrap._find_spec(top, None)  # type: ignore[attr-defined]
    folders = getattr(spec, "submodule_search_locations", None) or [module or spec or ""]
    origin = str(getattr(spec, "origin", None) or next(iter(folders)))
    return "" if any(origin.startswith(owned.path_prefixes(each)) for each in [*owned.packages]) else origin


class ModelFolderFinder(MetaPathFinder):
    """An import finder for model folders and their modules."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.rpartition(".")[2].startswith(owned.ABSOLUTE):
            return None
        spec = ModuleSpec(fullname, None, is_package=True)
        spec.submodule_search_locations = [owned.find_folder(fullname)]
        return spec

    def find_distributions(self, context: Any) -> Iterable["Distribution"]:
        if not (package := owned.latest_package(_owner())):
            return ()
        return lookups.distributions_in(owned.own_paths(package, context.path), context.name)


class PlainName(ModuleType):
    """A placeholder in `sys.modules` for all modules of one name in model folders, where unpicklers look.

    For the program's own code it acts as `plain`, the module that the program had imported under this name.
    """

    def __init__(self, name: str, plain: ModuleType | None) -> None:
        super().__init__(name)
        self.plain = plain

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and self.plain is None:
            raise AttributeError(name)
        try:
            package = "" if name.startswith("__") else _find_owner(self.__name__)
        except ImportError as error:
            raise AttributeError(str(error)) from None
        if not package:
            if self.plain is not None:
                return getattr(self.plain, name)
            raise AttributeError(f"no model has a module {self.__name__}")
        return getattr(import_own(package, self.__name__), name)


class Main(ModuleType):
    """The class of `__main__`.

    Each model has separate attributes, including the classes of its training script.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if owner := _owner():
            _mains.setdefault(owner, {})[name] = value
        else:
            super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not (owner := owned.latest_package(_owner())):
            raise AttributeError(f"module '__main__' has no attribute {name!r}")
        if name in (own := _mains.get(owner, {})):
            return own[name]
        modules = [vars(module) for key, module in [*sys.modules.items()] if key.startswith(f"{owner}.")]
        having = [names for names in modules if name in names]
        if having and (having[0] is modules[0] or len({id(names[name]) for names in having}) == 1):
            return having[0][name]  # the first one is the model's own module
        many = "several modules have it" if having else "no module has it"
        raise AttributeError(
            f"a pickle needs {name} of __main__, and in {owned.find_folder(owner)} {many}; "
            "import it in the model's module"
        )


def _add_placeholder(name: str) -> bool:
    """Add the plain name of a model's module to `sys.modules`. Returns False if no model has it.

    Raises ImportError if the name also refers to another module.
    """
    if owned.is_built_in(name.partition(".")[0]):  # such as `time`, which `datetime` imports on every call
        return False
    package = _find_owner(name)
    if not package or isinstance(sys.modules.get(name), PlainName):
        return bool(package)
    if other := _find_outside_file(name):
        own = import_own(package, name).__file__
        raise ImportError(
            f"a pickle refers to {name}, which is {own} and {other}; give one of them another name"
        )
    import_own(package, name)
    sys.modules[name] = PlainName(name, sys.modules.get(name))
    return True


def _import_for(importer: Any, name: str, fromlist: Any) -> Any:
    """Run an import statement of code with the globals `importer`.

    Returns the top-level module without `fromlist`, and None if the module is not the model's own.
    """
    package = _package_in(importer)
    if not package or not (owning := find_package(package, name)):
        return None
    import_own(owning, name)
    full = f"{owning}.{name}" if fromlist else f"{owning}.{name.partition('.')[0]}"
    return _import(full, None, None, fromlist or ("__name__",), 0)


_import = builtins.__import__


def import_module_for_code(
    name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
) -> Any:
    """The replacement for `builtins.__import__`."""
    if level == 0:
        # C code such as the unpickler passes an empty list and then reads `sys.modules`. So does Python code
        # that calls this function without globals.
        frame = sys._getframe(1)
        if fromlist == [] or (globals is None and frame.f_code is FIND_CLASS):
            if _add_placeholder(name):
                return sys.modules[name]
        elif (module := _import_for(globals or frame.f_globals, name, fromlist)) is not None:
            return module
        elif globals is None and not _find_outside_file(name) and _add_placeholder(name):
            top = name.partition(".")[0]
            return sys.modules[top if not fromlist and _add_placeholder(top) else name]
    module = _import(name, globals, locals, fromlist, level)
    if isinstance(module, PlainName):
        if module.plain is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return module.plain
    return module


def _find_and_load(find: Any) -> Any:
    """Wrap the function of the import system that `importlib.import_module` calls."""

    @wraps(find)
    def find_and_load(name: str, import_: Any) -> Any:
        if name.startswith(owned.PREFIX):
            if (replaced := owned.replaced.get(name)) is None:
                return find(name, import_)
            return sys.modules.setdefault(name, replaced)
        frame: FrameType | None = sys._getframe(1)
        dynamic = False
        while frame is not None and (code := frame.f_globals.get("__name__")) in IMPORT_SYSTEM:
            dynamic = dynamic or code == "importlib"
            frame = frame.f_back
        package = _package_in(frame.f_globals) if frame is not None else ""
        owner = package or (_owner() if dynamic and owned.packages else "")
        if owner and (owning := find_package(owner, name)) and (package or owning != owner):
            return import_own(owning, name)
        try:
            module = find(name, import_)
            if not isinstance(module, PlainName):
                return module
            if not (package := _find_owner(name)) and module.plain is not None:
                return module.plain
        except (ModuleNotFoundError, KeyError) as error:  # KeyError for a submodule of a placeholder
            missing = getattr(error, "name", None) or error.args[0]
            if not dynamic or not f"{name}.".startswith(f"{missing}.") or not (package := _find_owner(name)):
                raise
        return import_own(package, name)

    return find_and_load


def install() -> None:
    """Patch import statements and `importlib.import_module`, once per process."""
    if builtins.__import__ is import_module_for_code:
        return
    _programs.update(dict.fromkeys(sys.modules, True))
    here = os.path.dirname(__file__)
    if here not in sys.path:
        sys.path.append(here)
    sys.meta_path.insert(0, ModelFolderFinder())
    lookups.install_lookups(_full_name)
    builtins.__import__ = import_module_for_code
    _bootstrap._find_and_load = _find_and_load(_bootstrap._find_and_load)  # type: ignore[attr-defined]
    sys.modules["__main__"].__class__ = Main
    if configuration := sys.modules.get("logging.config"):
        vars(configuration)["BaseConfigurator"].importer = staticmethod(import_module_for_code)


def share_start_method(multiprocessing: Any) -> None:
    """Allow model code to set the start method again, to the same value.

    A reload, or another model, may already have set it.
    """

    def set_start_method(method: str | None, force: bool = False) -> None:
        if force or method != multiprocessing.get_start_method(allow_none=True):
            multiprocessing.context._default_context.set_start_method(method, force)

    multiprocessing.set_start_method = set_start_method


sys.modules.setdefault("model_folders", sys.modules[__name__])
if __name__ == "model_folders":  # in a pool process
    install()
    if "multiprocessing" in sys.modules:
        share_start_method(sys.modules["multiprocessing"])

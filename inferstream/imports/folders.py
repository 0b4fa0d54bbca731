"""Serialized imports of model code, from the model's own folder and from folders shared by all models."""

import asyncio
import importlib
import logging
import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from functools import lru_cache
from importlib import _bootstrap
from importlib.util import cache_from_source
from pathlib import Path
from site import getsitepackages
from sysconfig import get_path
from types import ModuleType
from typing import Any, NamedTuple

from ..errors import InvalidSettings
from ..telemetry.at_import import patch_at_import
from .metrics import join_metrics
from .path.model_folders import import_own, install, loading_from, share_start_method
from .path.owned_folders import PREFIX, find_folder, owns, package_name, put_back, set_aside
from .trusted import TrustedRuntimes

logger = logging.getLogger("inferstream.repository")

importing = threading.RLock()
"""Held during each import of model code, which changes `sys.path` and `sys.modules`.

Without it, two threads that enter an import cycle at different modules would deadlock, and Python would
resolve the deadlock by returning partially initialized modules.
"""

LOOP_PATIENCE = 5.0
"""The maximum time, in seconds, that an import on an event loop waits for another import.

This also delays health probes.
"""

CLOCK_STEP = 20_000_000
"""The maximum lag, in nanoseconds, of the timestamp of a file change behind the clock."""

RECENT = 2.0
"""The time after a change, in seconds, in which the bytecode header may not reveal another change."""

STANDS_IN = "STANDS_IN"
"""The attribute of modules that replace a package that is not installed.

A module in a folder takes precedence.
"""

LIBRARIES = ("stdlib", "platstdlib", "purelib", "platlib")

_alone: ContextVar[object] = ContextVar("imports_alone", default=None)
"""The event loop (or the thread, without an event loop) that entered a block of serialized imports.

None outside such blocks.
"""
_shared_folders: list[str] = []
_server_names: set[str] = set()
"""Top-level modules imported before the first folder was shared.

They belong to the server and stay imported.
"""

INSTALLED = tuple({f"{path}{os.sep}" for path in (*map(get_path, LIBRARIES), *getsitepackages())})
_installed: set[str] = set()
"""Modules outside model folders. Cached because each load checks thousands of modules."""

FileStamp = tuple[int, int, int]
_stamps: dict[str, FileStamp | None] = {}
"""The stamp of each shared module's file when the module was imported, or None if unknown."""
_looked = 0
"""The time at which the stamps were taken, in ns since the epoch."""


class ImportedModule(NamedTuple):
    """An imported module from a model folder or a shared folder.

    A namespace package can have several folders.
    """

    name: str
    top: str
    file: str | None
    folders: set[str]


def real_path(path: str | Path) -> Path:
    """Resolve links in a path, unless they lead through the root of another process, as in KServe modelcars.

    The target of such a link, `/proc/PID/root/models`, is a different folder in this process.
    """
    real = Path(path).resolve()
    try:
        return real if os.path.samefile(real, path) else Path(path).absolute()
    except OSError:
        return real if not Path(path).exists() else Path(path).absolute()


def share_folders(folders: Sequence[str | Path]) -> None:
    """Add folders that every model can import from.

    They are added at the end of `sys.path`, so that their files do not hide modules of the standard library
    or of installed packages.
    """
    if not _shared_folders:
        _server_names.update(name.partition(".")[0] for name in sys.modules)
    for folder in folders:
        entry = str(real_path(folder))
        if entry not in _shared_folders:
            _shared_folders.append(entry)
        if entry not in sys.path:
            sys.path.append(entry)


def share_target(folder: Path, target: str) -> None:
    """Add the folder of the app (`module:name`) or artefact that the operator serves.

    While a list of trusted runtimes is in force, code next to an artefact is not imported.
    """
    if ":" in target or TrustedRuntimes.current() is None:
        share_folders([folder])
    else:
        hide_models(folder)


def hide_models(root: Path) -> None:
    """Remove the folder of the models from the folders that code is imported from.

    Also removes a working directory inside it, which Python adds for `python -m`.
    """
    root, here = root.resolve(), Path.cwd().resolve()
    hidden = {str(root), *([str(here)] if here.is_relative_to(root) else ())}
    for folders in (sys.path, _shared_folders):
        folders[:] = [entry for entry in folders if os.path.realpath(entry) not in hidden]


def shared_folders() -> list[str]:
    """Return the shared folders of this process, for other processes."""
    return [*_shared_folders]


def import_from(folder: Path, name: str) -> ModuleType:
    """Import the module `name`, searching in `folder` first.

    Previously imported modules of this folder are removed first, so that a reload finds changed code. They
    are restored if the import fails. Shared modules stay imported until one of their files changes. A shared
    folder stays at the end of `sys.path` for later imports inside functions. Any other folder is imported as
    a package (see `model_folders`), so its modules are private to it.

    Raises InvalidSettings for such a folder while a list of trusted runtimes is in force.
    """
    global _looked
    entry = str(folder)
    if TrustedRuntimes.current() is not None and entry not in _shared_folders:
        raise InvalidSettings(f"the module {name} is a file of the model, and only trusted runtimes may run")
    install()
    join_metrics(INSTALLED)
    patch_at_import("multiprocessing", share_start_method)
    with importing:
        began = time.time_ns()
        removed = set_aside(
            {module.name: min(module.folders, default="") for module in _find_stale_modules(entry)}
        )
        for stale in removed:
            _stamps.pop(stale, None)
        importlib.invalidate_caches()
        known = {*sys.modules}
        try:
            return _import_in(entry, name)
        except BaseException:
            own = f"{package_name(entry)}."
            private = {name for name in sys.modules if f"{name}.".startswith(own)}
            for failed in private:
                del sys.modules[failed]
            put_back({name: module for name, module in removed.items() if f"{name}.".startswith(own)})
            raise
        finally:
            _drop_recent_bytecode(f"{entry}{os.sep}{name.replace('.', os.sep)}.py")  # even after an error
            modules = [*_iterate_modules()]
            for module in modules:
                if module.name not in known and module.file is not None:
                    _drop_recent_bytecode(module.file)
            for module in _find_shared_modules(modules):
                _stamps.setdefault(module.name, _stamp(module.file, began))
            _looked = time.time_ns()


def _import_in(entry: str, name: str) -> ModuleType:
    if entry not in _shared_folders:
        package = package_name(entry)
        return import_own(package, name) if owns(package, name) else importlib.import_module(name)
    sys.path.insert(0, entry)
    try:
        return importlib.import_module(name)
    finally:
        with suppress(ValueError):  # the module may have removed the entry
            sys.path.remove(entry)
        if entry not in sys.path:
            sys.path.append(entry)


def loading_for(source: str | None, artefact: str = "") -> AbstractContextManager[None]:
    """Return a context manager that resolves plain module names in pickles for one model.

    `source` is the settings file of the model.
    """
    folder = None if source is None else str(Path(source).resolve().parent)
    has_own = folder is not None and folder not in _shared_folders and TrustedRuntimes.current() is None
    return loading_from(str(folder), artefact) if has_own else nullcontext()


def _drop_recent_bytecode(file: str) -> None:
    """Remove the bytecode of a file that has just changed.

    The bytecode contains the size of the source and its modification time in whole seconds. Another change in
    the same second to the same size would not be detected, so a reload or another process would run the old
    code.
    """
    with suppress(OSError, NotImplementedError):
        if os.stat(file).st_mtime > time.time() - RECENT:
            os.remove(cache_from_source(file))


def stamp_files(folder: Path) -> dict[str, FileStamp | None]:
    """Return the files of all modules imported from a folder, with their stamps."""
    files = {
        module.file
        for module in _iterate_modules()
        if str(folder) in module.folders and module.file is not None
    }
    return {file: _stamp(file) for file in files}


def detect_change(stamps: dict[str, FileStamp | None]) -> bool:
    """Whether a file has changed since `stamp_files`."""
    return any(_stamp(file) != stamp for file, stamp in stamps.items())


def _find_stale_modules(folder: str) -> list[ImportedModule]:
    """Return the modules that an import for `folder` must not find in `sys.modules`.

    These are the modules of this folder, and all shared modules if shared code has changed.
    """
    modules = [*_iterate_modules()]
    own = _list_names(folder) if folder in _shared_folders else frozenset()
    renewed = _shared_code_changed(modules)
    return [
        module
        for module in modules
        if (
            folder in module.folders
            if module.name.startswith(PREFIX)
            else module.top in own or (renewed and module.folders)
        )
    ]


def _shared_code_changed(modules: Iterable[ImportedModule]) -> bool:
    """Whether a file of a shared module has changed since the module was imported."""
    for module in _find_shared_modules(modules):
        # A module without a stamp was imported inside a function, after the last check.
        stamp = _stamps.setdefault(module.name, _stamp(module.file, _looked))
        if stamp is None or stamp != _stamp(module.file):
            return True
    return False


def _find_shared_modules(modules: Iterable[ImportedModule]) -> Iterator[ImportedModule]:
    return (
        module
        for module in modules
        if module.file is not None and not module.folders.isdisjoint(_shared_folders)
    )


def _stamp(file: str | None, since: int | None = None) -> FileStamp | None:
    """Return a file's inode, modification time and size, or None if it is missing or has changed `since`."""
    try:
        stat = os.stat(file or "")
    except OSError:
        return None
    if since is not None and max(stat.st_mtime_ns, stat.st_ctime_ns) > since - CLOCK_STEP:
        return None
    return (stat.st_ino, stat.st_mtime_ns, stat.st_size)


def _list_names(folder: str) -> frozenset[str]:
    """Return the names that can be imported from a folder, and possibly other names."""
    try:
        changed = os.stat(folder).st_mtime_ns
        recent = changed > time.time_ns() - CLOCK_STEP
        return _list_modules.__wrapped__(folder, changed) if recent else _list_modules(folder, changed)
    except OSError:
        return frozenset()


@lru_cache(maxsize=16)
def _list_modules(folder: str, changed: int) -> frozenset[str]:
    return frozenset(entry.partition(".")[0] for entry in os.listdir(folder))


def _iterate_modules() -> Iterator[ImportedModule]:
    """Yield the imported modules of model folders and shared folders."""
    folders = {*_shared_folders}
    for name in {*sys.modules} - _installed:
        if name.startswith(PREFIX):
            package = ".".join(name.split(".", 2)[:2])
            yield ImportedModule(name, package, _attributes(name).get("__file__"), {find_folder(package)})
            continue
        top = name.partition(".")[0]
        if STANDS_IN in _attributes(top):
            yield ImportedModule(name, top, None, set())
            continue
        if not (attributes := _attributes(name)):
            continue  # another thread has just removed it, and a model folder may have the same name
        file, paths = attributes.get("__file__"), [*attributes.get("__path__", ())]
        if top in _server_names or (not paths if file is None else file.startswith(INSTALLED)):
            _installed.add(name)
            continue
        locations = paths if file is None else [_get_parent(file)] if paths else [file]
        homes = folders.intersection([_get_parent(path, name.count(".") + 1) for path in locations])
        if homes:
            yield ImportedModule(name, top, file, homes)


def _attributes(name: str) -> dict[str, Any]:
    """Return the attributes of an imported module, without calling its `__getattr__`."""
    try:
        attributes: dict[str, Any] = object.__getattribute__(sys.modules.get(name), "__dict__")
    except AttributeError:  # None, or another object that is not a module
        return {}
    return attributes


def _get_parent(path: str, levels: int = 1) -> str:
    """Return the folder that is `levels` above a path.

    Links are not resolved, because a file may link to a different folder.
    """
    for _ in range(levels):
        path = path[: path.rfind(os.sep)]
    return path


@contextmanager
def importing_alone() -> Iterator[None]:
    """Serialize imports: a thread imports a module completely before another thread can start an import.

    This applies to code awaited in the block and to its `asyncio.to_thread` calls. It does not apply to other
    threads that the code starts, because a module may start threads and wait for them while it is imported.
    """
    _wrap_imports()
    token = _alone.set(_event_loop() or threading.current_thread())
    try:
        yield
    finally:
        _alone.reset(token)


def _wrap_imports() -> None:
    """Patch the import system to serialize imports.

    Import statements, `import_module` and lazy module attributes all call this function, but only for modules
    that are not imported yet. A finder would be too late: it runs while the thread holds the module's own
    lock, and taking two locks in different orders can deadlock.
    """
    find: Any = _bootstrap._find_and_load  # type: ignore[attr-defined]
    if hasattr(find, "one_at_a_time"):
        return

    def find_and_load(name: str, import_: Any) -> Any:
        if _alone.get() is None or _is_complete(name) or not _take_lock(name):
            return find(name, import_)
        try:
            return find(name, import_)
        finally:
            importing.release()

    find_and_load.one_at_a_time = True  # type: ignore[attr-defined]
    _bootstrap._find_and_load = find_and_load  # type: ignore[attr-defined]


def _is_complete(name: str) -> bool:
    module = sys.modules.get(name)
    return module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False)


def _take_lock(name: str) -> bool:
    """Acquire the lock. On the block's event loop, give up after LOOP_PATIENCE, for the rest of the block."""
    if _event_loop() is not _alone.get():
        return importing.acquire()
    if importing.acquire(timeout=LOOP_PATIENCE):
        return True
    logger.warning("importing %s on the event loop while another import is in progress", name)
    _alone.set(None)
    return False


def _event_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None

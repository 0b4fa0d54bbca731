"""Imports of model code, one at a time, from the model's own folder and from folders that all models share."""

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

from ..telemetry.at_import import at_import
from .metrics import join_metrics
from .path.model_folders import import_own, install, loading_from, share_start_method
from .path.owned_folders import PREFIX, folder_of, owns, package_of, put_back, set_aside

logger = logging.getLogger("inferstream.repository")

importing = threading.RLock()
"""Held during each import of model code, which changes `sys.path` and `sys.modules`. Two threads that enter one
import cycle at different modules deadlock, and Python then returns partially initialised modules."""

LOOP_PATIENCE = 5.0
"""Seconds that an import on an event loop waits for another import. Health probes wait with it."""

CLOCK_STEP = 20_000_000
"""Nanoseconds by which the time of a file's change may lag behind the clock."""

RECENT = 2.0
"""Seconds for which a file may change again without a change of what its bytecode says of it."""

STANDS_IN = "STANDS_IN"
"""Attribute of our modules that replace a package that is not installed. A module in a folder wins over them."""

LIBRARIES = ("stdlib", "platstdlib", "purelib", "platlib")

_alone: ContextVar[object] = ContextVar("imports_alone", default=None)
"""The event loop, or else the thread, that entered the block in which imports take turns. None outside of it."""
_shared_folders: list[str] = []
_server_names: set[str] = set()
"""Top-level names imported before the first folder was shared. They are the server's own and stay imported."""

INSTALLED = tuple({f"{path}{os.sep}" for path in (*map(get_path, LIBRARIES), *getsitepackages())})
_installed: set[str] = set()
"""Modules outside of model folders, cached because there are thousands and each load checks them."""

FileStamp = tuple[int, int, int]
_stamps: dict[str, FileStamp | None] = {}
"""The stamp of each shared module's file at the import of the module; None if it is unknown."""
_looked = 0
"""The time of the stamps, in ns since the epoch."""


class ImportedModule(NamedTuple):
    """An imported module from a model's folder or a shared folder. A package may have several folders."""

    name: str
    top: str
    file: str | None
    folders: set[str]


def real_path(path: str | Path) -> Path:
    """The path without links, or with them if it leads through the root of another process (KServe's modelcars).

    The target of such a link, `/proc/PID/root/models`, is another folder when its name is followed from here.
    """
    real = Path(path).resolve()
    try:
        return real if os.path.samefile(real, path) else Path(path).absolute()
    except OSError:
        return real if not Path(path).exists() else Path(path).absolute()


def share_folders(folders: Sequence[str | Path]) -> None:
    """Let every model import from these folders.

    They are added to the end of `sys.path`, so their files hide no module of the standard library or of an
    installed package.
    """
    if not _shared_folders:
        _server_names.update(name.partition(".")[0] for name in sys.modules)
    for folder in folders:
        entry = str(real_path(folder))
        if entry not in _shared_folders:
            _shared_folders.append(entry)
        if entry not in sys.path:
            sys.path.append(entry)


def shared_folders() -> list[str]:
    """The folders that models of this process share, for other processes."""
    return [*_shared_folders]


def import_from(folder: Path, name: str) -> ModuleType:
    """Import the module `name`. The search starts in `folder`.

    Older modules of this folder are removed first, so a reload finds changed code; they come back if the import fails.
    Shared modules stay until one of their files changes. A shared folder stays at the end of `sys.path` for later
    imports inside functions. Any other folder is a package (`model_folders`), so that its modules are nobody else's.
    """
    global _looked
    entry = str(folder)
    install()
    join_metrics(INSTALLED)
    at_import("multiprocessing", share_start_method)
    with importing:
        began = time.time_ns()
        removed = set_aside({module.name: min(module.folders, default="") for module in _stale(entry)})
        for stale in removed:
            _stamps.pop(stale, None)
        importlib.invalidate_caches()
        known = {*sys.modules}
        try:
            return _import_in(entry, name)
        except BaseException:
            own = f"{package_of(entry)}."
            private = {name for name in sys.modules if f"{name}.".startswith(own)}
            for failed in private:
                del sys.modules[failed]
            put_back({name: module for name, module in removed.items() if f"{name}.".startswith(own)})
            raise
        finally:
            _drop_recent_bytecode(f"{entry}{os.sep}{name.replace('.', os.sep)}.py")  # also of one that fails
            modules = [*_imported()]
            for module in modules:
                if module.name not in known and module.file is not None:
                    _drop_recent_bytecode(module.file)
            for module in _shared(modules):
                _stamps.setdefault(module.name, _stamp(module.file, began))
            _looked = time.time_ns()


def _import_in(entry: str, name: str) -> ModuleType:
    if entry not in _shared_folders:
        package = package_of(entry)
        return import_own(package, name) if owns(package, name) else importlib.import_module(name)
    sys.path.insert(0, entry)
    try:
        return importlib.import_module(name)
    finally:
        with suppress(ValueError):  # the module may have removed it
            sys.path.remove(entry)
        if entry not in sys.path:
            sys.path.append(entry)


def loading_for(source: str | None, artefact: str = "") -> AbstractContextManager[None]:
    """Resolve plain names in pickles for the model whose settings are in the file `source`."""
    folder = None if source is None else str(Path(source).resolve().parent)
    return nullcontext() if folder is None or folder in _shared_folders else loading_from(folder, artefact)


def _drop_recent_bytecode(file: str) -> None:
    """Remove the bytecode of a file that has just changed.

    Python compares the size of the file and the time of its change in whole seconds. Another change in the same second,
    to as many bytes, would not be seen: a reload, or another process, would get the old code.
    """
    with suppress(OSError, NotImplementedError):
        if os.stat(file).st_mtime > time.time() - RECENT:
            os.remove(cache_from_source(file))


def stamps_of(folder: Path) -> dict[str, FileStamp | None]:
    """The files of all modules imported from a folder, with their stamps."""
    files = {
        module.file for module in _imported() if str(folder) in module.folders and module.file is not None
    }
    return {file: _stamp(file) for file in files}


def changed(stamps: dict[str, FileStamp | None]) -> bool:
    """Whether a file has changed since `stamps_of`."""
    return any(_stamp(file) != stamp for file, stamp in stamps.items())


def _stale(folder: str) -> list[ImportedModule]:
    """Modules that an import for `folder` must not find in `sys.modules`.

    These are the modules of this folder, and all shared modules if shared code has changed.
    """
    modules = [*_imported()]
    own = _names_in(folder) if folder in _shared_folders else frozenset()
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
    for module in _shared(modules):
        # A module without a stamp was imported inside a function, after the last check.
        stamp = _stamps.setdefault(module.name, _stamp(module.file, _looked))
        if stamp is None or stamp != _stamp(module.file):
            return True
    return False


def _shared(modules: Iterable[ImportedModule]) -> Iterator[ImportedModule]:
    return (
        module
        for module in modules
        if module.file is not None and not module.folders.isdisjoint(_shared_folders)
    )


def _stamp(file: str | None, since: int | None = None) -> FileStamp | None:
    """The identity and version of a file; None if there is no file, or if it has changed `since`."""
    try:
        stat = os.stat(file or "")
    except OSError:
        return None
    if since is not None and max(stat.st_mtime_ns, stat.st_ctime_ns) > since - CLOCK_STEP:
        return None
    return (stat.st_ino, stat.st_mtime_ns, stat.st_size)


def _names_in(folder: str) -> frozenset[str]:
    """Names that can be imported from a folder, among other names that cannot."""
    try:
        changed = os.stat(folder).st_mtime_ns
        recent = changed > time.time_ns() - CLOCK_STEP
        return _listed.__wrapped__(folder, changed) if recent else _listed(folder, changed)
    except OSError:
        return frozenset()


@lru_cache(maxsize=16)
def _listed(folder: str, changed: int) -> frozenset[str]:
    return frozenset(entry.partition(".")[0] for entry in os.listdir(folder))


def _imported() -> Iterator[ImportedModule]:
    """The imported modules of model folders and shared folders."""
    folders = {*_shared_folders}
    for name in {*sys.modules} - _installed:
        if name.startswith(PREFIX):
            package = ".".join(name.split(".", 2)[:2])
            yield ImportedModule(name, package, _attributes(name).get("__file__"), {folder_of(package)})
            continue
        top = name.partition(".")[0]
        if STANDS_IN in _attributes(top):
            yield ImportedModule(name, top, None, set())
            continue
        if not (attributes := _attributes(name)):
            continue  # another thread has just removed it: its name may come back from a model's folder
        file, paths = attributes.get("__file__"), [*attributes.get("__path__", ())]
        if top in _server_names or (not paths if file is None else file.startswith(INSTALLED)):
            _installed.add(name)
            continue
        locations = paths if file is None else [_above(file)] if paths else [file]
        homes = folders.intersection([_above(path, name.count(".") + 1) for path in locations])
        if homes:
            yield ImportedModule(name, top, file, homes)


def _attributes(name: str) -> dict[str, Any]:
    """The attributes of an imported module, read without its `__getattr__`."""
    try:
        attributes: dict[str, Any] = object.__getattribute__(sys.modules.get(name), "__dict__")
    except AttributeError:  # None, or something else that is no module
        return {}
    return attributes


def _above(path: str, levels: int = 1) -> str:
    """The folder `levels` above. Links are not followed, because a file may link to another place."""
    for _ in range(levels):
        path = path[: path.rfind(os.sep)]
    return path


@contextmanager
def importing_alone() -> Iterator[None]:
    """Let imports in such blocks take turns: a thread imports a module completely before another thread starts.

    This applies to code that the block awaits and to its `asyncio.to_thread`. It does not apply to other threads
    that it starts: a module may start threads and wait for them during its import.
    """
    _wrap_imports()
    token = _alone.set(_event_loop() or threading.current_thread())
    try:
        yield
    finally:
        _alone.reset(token)


def _wrap_imports() -> None:
    """Make the import system take turns.

    Statements, `import_module` and lazy module attributes all call this one function, and only for modules that are
    not imported yet. A finder runs too late: the thread then holds the module's own lock, and two locks in
    different orders deadlock.
    """
    find: Any = _bootstrap._find_and_load  # type: ignore[attr-defined]
    if hasattr(find, "one_at_a_time"):
        return

    def find_and_load(name: str, import_: Any) -> Any:
        if _alone.get() is None or _initialised(name) or not _take_lock(name):
            return find(name, import_)
        try:
            return find(name, import_)
        finally:
            importing.release()

    find_and_load.one_at_a_time = True  # type: ignore[attr-defined]
    _bootstrap._find_and_load = find_and_load  # type: ignore[attr-defined]


def _initialised(name: str) -> bool:
    module = sys.modules.get(name)
    return module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False)


def _take_lock(name: str) -> bool:
    """Take the lock. On the block's event loop, give up after LOOP_PATIENCE for the rest of the block."""
    if _event_loop() is not _alone.get():
        return importing.acquire()
    if importing.acquire(timeout=LOOP_PATIENCE):
        return True
    logger.warning("the event loop imports %s beside another import that goes on", name)
    _alone.set(None)
    return False


def _event_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None

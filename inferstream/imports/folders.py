"""Imports of model code: one at a time, from the model's own folder and from the folders that all models share."""

import asyncio
import importlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import lru_cache
from importlib import _bootstrap
from pathlib import Path
from site import getsitepackages
from sysconfig import get_path
from types import ModuleType
from typing import Any, NamedTuple

logger = logging.getLogger("inferstream.repository")

importing = threading.RLock()
"""Held during each import of model code. `sys.path` and `sys.modules` change during an import. Two threads that
import modules of one import cycle from two ends deadlock, and Python then hands out half-initialised modules."""

LOOP_PATIENCE = 5.0
"""Seconds that an import on an event loop waits for an import elsewhere; health probes wait with it."""

CLOCK_STEP = 20_000_000
"""Nanoseconds by which the time of a file's change may lag behind the clock."""

STANDS_IN = "STANDS_IN"
"""Attribute of modules of ours that stand in for a package that is not installed: what a folder has goes first."""

LIBRARIES = ("stdlib", "platstdlib", "purelib", "platlib")

_alone: ContextVar[object] = ContextVar("imports_alone", default=None)
"""What began the block in which imports take turns: its event loop, or else its thread. None outside of one."""
_model_folders: set[str] = set()
_shared_folders: list[str] = []
_server_names: set[str] = set()
"""Top-level names that were imported before the first folder was shared: the server's own, never imported anew."""

INSTALLED = tuple({f"{path}{os.sep}" for path in (*map(get_path, LIBRARIES), *getsitepackages())})
_installed: set[str] = set()
"""Modules that are no model's, remembered because there are thousands of them and each load asks."""

FileStamp = tuple[int, int, int]
_stamps: dict[str, FileStamp | None] = {}
"""What the file of each shared module was when the module was imported; None where that is not known."""
_looked = 0
"""When the stamps were taken, in ns since the epoch."""


class Found(NamedTuple):
    """An imported module that came from a model's folder or a shared one; a package may have several folders."""

    name: str
    top: str
    file: str | None
    folders: set[str]


def share_folders(folders: Sequence[str | Path]) -> None:
    """Let every model import from these folders.

    They go to the end of `sys.path`, so no file in them hides the standard library or an installed package.
    """
    if not _shared_folders:
        _server_names.update(name.partition(".")[0] for name in sys.modules)
    for folder in folders:
        entry = str(Path(folder).resolve())
        if entry not in _shared_folders:
            _shared_folders.append(entry)
        if entry not in sys.path:
            sys.path.append(entry)


def shared_folders() -> list[str]:
    """The folders that models of this process share, for other processes."""
    return [*_shared_folders]


def import_from(folder: Path, name: str) -> ModuleType:
    """The module `name`, looked for in `folder` first.

    The import starts without this folder's older modules, so a reload finds changed code, and without
    modules of other model folders that have the same name. Shared modules stay until one of their files
    changes. The folder stays at the end of `sys.path` for later imports inside functions.
    """
    global _looked
    entry = str(folder)
    with importing:
        _model_folders.add(entry)
        began = time.time_ns()
        for stale in _stale(entry):
            del sys.modules[stale]
            _stamps.pop(stale, None)
        importlib.invalidate_caches()
        sys.path.insert(0, entry)
        try:
            return importlib.import_module(name)
        finally:
            with suppress(ValueError):  # the module may have removed it
                sys.path.remove(entry)
            if entry not in sys.path:
                sys.path.append(entry)
            for module in _shared(_found()):
                _stamps.setdefault(module.name, _stamp(module.file, began))
            _looked = time.time_ns()


def _stale(folder: str) -> list[str]:
    """Modules that an import for `folder` must not find in `sys.modules`.

    These have a name that this folder has; or they come from another model's folder, and a shared folder
    has their name; or they are shared, and shared code has changed.
    """
    found = [*_found()]
    own = _names_in(folder)
    common = frozenset[str]().union(*map(_names_in, _shared_folders))
    renewed = _shared_code_changed(found)
    return [
        module.name
        for module in found
        if module.top in own
        or (renewed if not module.folders.isdisjoint(_shared_folders) else module.top in common)
    ]


def _shared_code_changed(found: Iterable[Found]) -> bool:
    """Whether a file of a shared module has changed since the module was imported."""
    for module in _shared(found):
        # One without a stamp was imported inside a function, after the last look.
        stamp = _stamps.setdefault(module.name, _stamp(module.file, _looked))
        if stamp is None or stamp != _stamp(module.file):
            return True
    return False


def _shared(found: Iterable[Found]) -> Iterator[Found]:
    return (
        module
        for module in found
        if module.file is not None and not module.folders.isdisjoint(_shared_folders)
    )


def _stamp(file: str | None, since: int | None = None) -> FileStamp | None:
    """What tells a file from its earlier contents; None if there is no file, or if it has changed `since`."""
    try:
        stat = os.stat(file or "")
    except OSError:
        return None
    if since is not None and max(stat.st_mtime_ns, stat.st_ctime_ns) > since - CLOCK_STEP:
        return None
    return (stat.st_ino, stat.st_mtime_ns, stat.st_size)


def _names_in(folder: str) -> frozenset[str]:
    """Names that may be imported from a folder, among others that cannot and do no harm."""
    try:
        changed = os.stat(folder).st_mtime_ns
        recent = changed > time.time_ns() - CLOCK_STEP
        return _listed.__wrapped__(folder, changed) if recent else _listed(folder, changed)
    except OSError:
        return frozenset()


@lru_cache(maxsize=16)
def _listed(folder: str, changed: int) -> frozenset[str]:
    return frozenset(entry.partition(".")[0] for entry in os.listdir(folder))


def _found() -> Iterator[Found]:
    """Modules of models and shared modules, as far as they are imported."""
    folders = _model_folders.union(_shared_folders)
    for name in {*sys.modules} - _installed:
        top = name.partition(".")[0]
        if STANDS_IN in _attributes(top):
            yield Found(name, top, None, set())
            continue
        attributes = _attributes(name)
        file, paths = attributes.get("__file__"), [*attributes.get("__path__", ())]
        if top in _server_names or (not paths if file is None else file.startswith(INSTALLED)):
            _installed.add(name)
            continue
        places = paths if file is None else [_above(file)] if paths else [file]
        homes = folders.intersection([_above(place, name.count(".") + 1) for place in places])
        if homes:
            yield Found(name, top, file, homes)


def _attributes(name: str) -> dict[str, Any]:
    """The attributes of an imported module, read past whatever it does when it is asked for one."""
    try:
        attributes: dict[str, Any] = object.__getattribute__(sys.modules.get(name), "__dict__")
    except AttributeError:  # None, or something else that is no module
        return {}
    return attributes


def _above(path: str, levels: int = 1) -> str:
    """So many folders up; links are not followed, since a file may be a link to somewhere else."""
    for _ in range(levels):
        path = path[: path.rfind(os.sep)]
    return path


@contextmanager
def importing_alone() -> Iterator[None]:
    """Import each module, with all that it imports, before another thread in such a block imports anything.

    This holds for what the block awaits and for its `asyncio.to_thread`, not for other threads it starts:
    a module may start threads and wait for them while it is imported.
    """
    _wrap_imports()
    token = _alone.set(_event_loop() or threading.current_thread())
    try:
        yield
    finally:
        _alone.reset(token)


def _wrap_imports() -> None:
    """Let the import system ask for a turn.

    Statements, `import_module` and lazy module attributes all go through this one function, which only
    runs for modules that are not imported yet. A finder would be asked too late: the module's own lock
    is taken by then, and two locks in two orders are a deadlock.
    """
    find: Any = _bootstrap._find_and_load  # type: ignore[attr-defined]
    if not hasattr(find, "in_turn"):
        _bootstrap._find_and_load = _in_turn(find)  # type: ignore[attr-defined]


def _in_turn(find: Callable[[str, Any], ModuleType]) -> Callable[[str, Any], ModuleType]:
    def find_and_load(name: str, import_: Any) -> ModuleType:
        if _alone.get() is None or _initialised(name):
            return find(name, import_)
        if not _take_turn(name):
            return find(name, import_)
        try:
            return find(name, import_)
        finally:
            importing.release()

    find_and_load.in_turn = True  # type: ignore[attr-defined]
    return find_and_load


def _initialised(name: str) -> bool:
    module = sys.modules.get(name)
    return module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False)


def _take_turn(name: str) -> bool:
    """Take the lock. On the block's event loop, which others wait for, give up after a while for the rest of it."""
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

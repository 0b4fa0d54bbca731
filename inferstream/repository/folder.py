"""The repository on disk: a folder with `model-settings.json` files or settings files of other servers."""

import asyncio
import logging
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ..errors import InvalidSettings
from ..imports.folders import real_path
from ..settings import (
    MODEL_SETTINGS_FILE,
    SETTINGS_FILE,
    ModelParameters,
    ModelSettings,
    load_model_settings,
)
from ..settings.sources import read_json, validate
from .artefacts import (
    find_description,
    find_model_folders,
    infer_settings,
    is_archive,
    read_artefact_settings,
    settings_kinds,
)
from .base import BrokenModel, BrokenModels, ModelRepository, Versions

logger = logging.getLogger("inferstream.repository")

FolderKey = tuple[str, str | None]

SettingsStamp = tuple[int, int, int, int]
"""The inode, modification time in ns, size in bytes, and modification time of the folder.

The last one detects new versions next to settings files of other servers. It is 0 for `model-settings.json`.
"""

MAX_NAME = 128
"""The maximum length of a model name, which becomes part of paths and metric labels."""

PACKAGES = "site-packages"
"""The packages folder of a Python environment, which may be located in the repository."""

_UNSAFE = re.compile(r"[\x00-\x1f\x7f\\:]|(^|/)\.{1,2}(/|$)|^/|/$|//")


class FolderRepository(ModelRepository):
    """Reads the folder `root` on each call, so models can be added and removed while the server runs.

    `name` overrides the name of the only model. Raises InvalidSettings if it is not a safe name.
    """

    def __init__(self, root: str | Path, name: str | None = None) -> None:
        self._root = real_path(root)
        self._name = name
        self._artefact = self._root
        """The folder or file of a model without settings."""
        if name is not None:
            check_name(name, "settings")
        self._broken: BrokenModels = []
        self._known: dict[Path, tuple[SettingsStamp, ModelSettings | InvalidSettings]] = {}
        self._named: dict[Path, FolderKey] = {}

    async def list(self) -> Versions:
        usable, self._broken = await asyncio.to_thread(self._scan)
        return usable

    async def broken(self) -> BrokenModels:
        return [
            model._replace(reason=self.explain(model.reason, Path(model.source or self._root)))
            for model in self._broken
        ]

    def find_forbidden(self, models: Sequence[ModelSettings]) -> Iterable[tuple[ModelSettings, str]]:
        """Yield the `models` that must not be served, each with a reason that clients can read.

        A subclass may change the settings of the other models. By default none are rejected. Called in a
        thread.
        """
        return ()

    def explain(self, reason: str, path: Path) -> str:
        """Return the reason, for clients, why the model at `path` is broken. Subclasses can extend it."""
        return reason

    def _scan(self) -> tuple[Versions, BrokenModels]:
        """Return the usable and the broken models, ordered by path."""
        usable, broken = self._search()
        for settings, reason in [*self.find_forbidden(usable)]:
            usable.remove(settings)
            broken.append(BrokenModel(settings.name, reason, settings.version, settings.source or ""))
        return usable, broken

    def _search(self) -> tuple[Versions, BrokenModels]:
        usable: dict[FolderKey, ModelSettings] = {}
        broken: BrokenModels = []
        twice: set[FolderKey] = set()
        for path in settings_files(self._root):
            settings = self._read_settings(path)
            if isinstance(settings, InvalidSettings):
                name, version = self._named.get(path, (self._name or path.parent.name, None))
                broken.append(BrokenModel(name, self._without_root(settings.message), version, str(path)))
                continue
            key = self._named[path] = (settings.name, settings.version)
            if key in usable and path.resolve() == Path(usable[key].source or "").resolve():
                continue  # the same file through a link
            if key in usable:
                twice.add(key)
                broken.append(BrokenModel(key[0], self._duplicate(usable[key], path), key[1], str(path)))
            else:
                usable[key] = settings
        for key in twice:
            del usable[key]
        if len(self._known) > 2 * (len(usable) + len(broken)) + 16:
            self._known.clear()  # most of the cached files no longer exist
            self._named = {path: key for path, key in self._named.items() if path.exists()}
        if not usable and not broken:
            return self._find_models()
        return [*usable.values()], broken

    def read(self, path: Path) -> ModelSettings:
        """Read the settings in a file of the repository, and fill in a missing name or URI.

        Raises InvalidSettings.
        """
        settings = read_settings(path, self._root)
        settings.name = self._name or settings.name
        return settings

    def _read_settings(self, path: Path) -> ModelSettings | InvalidSettings:
        """Return the settings in a file, or their error. A file is only read again after a change."""
        try:
            stat = path.stat()
            beside = path.parent.stat().st_mtime_ns if path.name != MODEL_SETTINGS_FILE else 0
        except OSError as error:
            return InvalidSettings(f"{path}: {error.strerror}")
        stamp = (stat.st_ino, stat.st_mtime_ns, stat.st_size, beside)
        known = self._known.get(path)
        if known is None or known[0] != stamp:
            try:
                known = (stamp, self.read(path))
            except InvalidSettings as error:
                known = (stamp, error)
            self._known[path] = known
        return known[1]

    def _duplicate(self, first: ModelSettings, second: Path) -> str:
        which = f"version {first.version}" if first.version else "no version"
        return self._without_root(f"two models of this name with {which}: {first.source} and {second}")

    def _without_root(self, text: str) -> str:
        """Remove the repository path from a message for clients."""
        return text.replace(f"{self._root}{os.sep}", "")

    def _find_models(self) -> tuple[Versions, BrokenModels]:
        usable: dict[FolderKey, ModelSettings] = {}
        broken: BrokenModels = []
        for artefact in self.artefacts():
            name = artefact.stem if is_archive(artefact) else artefact.name
            try:
                settings = self.without_settings(artefact)
                if settings is None:
                    continue
                if (first := usable.get(key := (settings.name, settings.version))) is not None:
                    name, reason = settings.name, f"{first._recognised} is the same version of the same model"
                    broken.append(BrokenModel(name, f"{artefact.name}: {reason}", settings.version))
                else:
                    usable[key] = settings
            except InvalidSettings as error:
                broken.append(BrokenModel(self._name or name, self._without_root(error.message)))
        return [*usable.values()], broken

    def artefacts(self) -> Sequence[Path]:
        """Return the paths of models without settings.

        These are the model archives in the folder. Without any, they are its subfolders with models, or the
        folder itself.
        """
        if ModelSettings.from_environment().get("implementation"):
            return [self._artefact]
        archives = sorted(filter(is_archive, self._artefact.glob("[!.]*")))
        return archives or find_model_folders(self._artefact) or [self._artefact]

    def without_settings(self, artefact: Path) -> ModelSettings | None:
        """Return the settings implied by environment variables or files, or None for a folder without files.

        Model code is imported from the folder of `settings.json`. Paths are relative to the working
        directory, as in MLServer. Raises InvalidSettings, for example if there are files but no model.
        """
        described: dict[str, Any] = {}
        if not ModelSettings.from_environment().get("implementation"):
            described = infer_settings(artefact)
            if not described:
                return None
        settings = validate(ModelSettings, described, "environment")
        below = artefact.is_dir() and artefact != self._artefact
        folder = artefact if below else self._root
        settings.name = (None if below else self._name) or settings.name or folder.name
        check_name(settings.name, "environment")
        settings._source = str(self._root / SETTINGS_FILE)
        if described:
            description = find_description(artefact)
            uri = described["parameters"].get("uri") or (description[1] if description else "")
            settings._recognised = Path(uri).name
        complete(settings, str(folder))
        assert settings.parameters is not None
        for field in ("uri", "environment_path", "environment_tarball"):
            path = getattr(settings.parameters, field)
            if path and Path(path).exists():
                setattr(settings.parameters, field, str(Path(path).absolute()))
        return settings


def settings_files(root: Path) -> Iterator[Path]:
    """Yield every settings file under `root`, ordered by path, except in hidden folders and packages.

    Links to folders are followed if the target is inside `root`.
    """
    real_root, known = root.resolve(), settings_kinds().keys()
    for folder, folders, files in os.walk(root, onerror=_report_unreadable, followlinks=True):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith((".", "__"))
            and name != PACKAGES
            and _may_search(Path(folder, name), real_root)
        )
        if MODEL_SETTINGS_FILE in files:
            yield Path(folder, MODEL_SETTINGS_FILE)
        elif (others := known & {*files}) and not any(Path(folder).glob(f"*/{MODEL_SETTINGS_FILE}")):
            yield Path(folder, min(others))


def _may_search(folder: Path, root: Path) -> bool:
    """Whether to search a folder. Links are only followed if they lead to other folders in the repository."""
    if not folder.is_symlink():
        return True
    target = folder.resolve()
    if not target.is_relative_to(root):
        _warn_skip(folder, "this link leads out of the repository, so it is not followed")
        return False
    if (folder.parent.resolve() / folder.name).is_relative_to(target):
        _warn_skip(folder, "this link leads to a folder that it is in, so it is not followed")
        return False
    return True


def _report_unreadable(error: OSError) -> None:
    if isinstance(error, FileNotFoundError):
        return  # the folder was removed, or does not exist yet
    _warn_skip(error.filename, f"{error.strerror}, so no models are searched in this folder")


@cache
def _warn_skip(folder: str | Path, reason: str) -> None:
    logger.warning("%s: %s", folder, reason)


def read_fields(path: Path) -> dict[str, Any]:
    """Read the settings fields in a file of the repository. Raises InvalidSettings."""
    kind = settings_kinds().get(path.name)
    return read_json(path) if kind is None else read_artefact_settings(kind, path)


def read_settings(path: Path, root: Path) -> ModelSettings:
    """Read the settings in a file of the repository at `root`, and fill in a missing name or URI.

    Raises InvalidSettings.
    """
    if not path.resolve().is_relative_to(root.resolve()):
        raise InvalidSettings(f"{path}: a link that leads out of the repository")
    if path.name in settings_kinds():
        settings = validate(ModelSettings, read_fields(path), str(path))
        settings._source = str(path)
    else:
        settings = load_model_settings(path)
    folder = path.parent
    if not settings.name:
        settings.name = folder.name
    elif settings.name != folder.name and folder.name != settings.version and folder != root:
        logger.debug("%s: the model is called %s, not %s", path, settings.name, folder.name)
    check_name(settings.name, str(path))
    complete(settings, str(folder))
    return settings


def complete(settings: ModelSettings, uri: str) -> None:
    """Set `parameters.uri`, which runtimes require, to `uri` if it is missing."""
    if settings.parameters is None:
        settings.parameters = ModelParameters()
    if settings.parameters.uri is None:
        settings.parameters.uri = uri


def check_name(name: str, source: str) -> None:
    """Raise InvalidSettings if a model name is not safe in URLs and paths."""
    if not name or len(name) > MAX_NAME or _UNSAFE.search(name) or not name.isprintable():
        raise InvalidSettings(f'{source}: field "name": {name[:40]!r} is not a usable model name')

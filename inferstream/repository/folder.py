"""The repository on disk: every `model-settings.json` under a folder, and every settings file of another server."""

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
from ..settings.sources import read_json, validated
from .artefacts import (
    described_by_files,
    describing,
    folders_of_models,
    is_archive,
    read_settings_of,
    settings_kinds,
)
from .base import BrokenModel, BrokenModels, ModelRepository, Versions

logger = logging.getLogger("inferstream.repository")

FolderKey = tuple[str, str | None]

SettingsStamp = tuple[int, int, int, int]
"""Inode, time of change in ns, size in bytes. It changes with the file, and with the versions beside other settings."""

MAX_NAME = 128
"""Characters of a model's name, which becomes part of paths and of labels of metrics."""

PACKAGES = "site-packages"
"""Folder of packages in a Python environment. Such an environment may be in the repository."""

_UNSAFE = re.compile(r"[\x00-\x1f\x7f\\:]|(^|/)\.{1,2}(/|$)|^/|/$|//")


class FolderRepository(ModelRepository):
    """Reads the folder `root` at each call, so models may appear and disappear while the server runs.

    `name` is that of its only model, whatever the settings say. Raises InvalidSettings for one that is not safe.
    """

    def __init__(self, root: str | Path, name: str | None = None) -> None:
        self._root = real_path(root)
        self._name = name
        self._artefact = self._root
        """The folder or file that a model without settings is in."""
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

    def refused(self, models: Sequence[ModelSettings]) -> Iterable[tuple[ModelSettings, str]]:
        """Those of the usable `models` that must not serve, each with a reason that clients may read.

        A subclass may change the settings of the others. The default refuses none. It runs in a thread.
        """
        return ()

    def explain(self, reason: str, path: Path) -> str:
        """The reason why the model at `path` is broken, for clients. A subclass may add to it."""
        return reason

    def _scan(self) -> tuple[Versions, BrokenModels]:
        """Usable models and broken models, in the order of their paths."""
        usable, broken = self._search()
        for settings, reason in [*self.refused(usable)]:
            usable.remove(settings)
            broken.append(BrokenModel(settings.name, reason, settings.version, settings.source or ""))
        return usable, broken

    def _search(self) -> tuple[Versions, BrokenModels]:
        usable: dict[FolderKey, ModelSettings] = {}
        broken: BrokenModels = []
        twice: set[FolderKey] = set()
        for path in settings_files(self._root):
            settings = self._remembered(path)
            if isinstance(settings, InvalidSettings):
                name, version = self._named.get(path, (self._name or path.parent.name, None))
                broken.append(BrokenModel(name, self._without_root(settings.message), version, str(path)))
                continue
            key = self._named[path] = (settings.name, settings.version)
            if key in usable and path.resolve() == Path(usable[key].source or "").resolve():
                continue  # by a link
            if key in usable:
                twice.add(key)
                broken.append(BrokenModel(key[0], self._duplicate(usable[key], path), key[1], str(path)))
            else:
                usable[key] = settings
        for key in twice:
            del usable[key]
        if len(self._known) > 2 * (len(usable) + len(broken)) + 16:
            self._known.clear()  # most of these files no longer exist
            self._named = {path: key for path, key in self._named.items() if path.exists()}
        if not usable and not broken:
            return self._described()
        return [*usable.values()], broken

    def read(self, path: Path) -> ModelSettings:
        """The settings in a file of the repository, with a name and a URI. Raises InvalidSettings."""
        settings = read_settings(path, self._root)
        settings.name = self._name or settings.name
        return settings

    def _remembered(self, path: Path) -> ModelSettings | InvalidSettings:
        """The settings in a file, or their error. The file is read again only after a change."""
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
        """The text without the path of the repository, for clients."""
        return text.replace(f"{self._root}{os.sep}", "")

    def _described(self) -> tuple[Versions, BrokenModels]:
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
        """What models without settings are in: each archive of a model in the folder, or the folder itself, or each
        folder in it.
        """
        if ModelSettings.from_environment().get("implementation"):
            return [self._artefact]
        archives = sorted(filter(is_archive, self._artefact.glob("[!.]*")))
        return archives or folders_of_models(self._artefact) or [self._artefact]

    def without_settings(self, artefact: Path) -> ModelSettings | None:
        """The model that environment variables or files describe; None for a folder without files.

        Its code is searched beside `settings.json`. Relative paths start at the working folder, as with MLServer.
        Raises InvalidSettings, also for files without a model.
        """
        described: dict[str, Any] = {}
        if not ModelSettings.from_environment().get("implementation"):
            described = described_by_files(artefact)
            if not described:
                return None
        settings = validated(ModelSettings, described, "environment")
        below = artefact.is_dir() and artefact != self._artefact
        folder = artefact if below else self._root
        settings.name = (None if below else self._name) or settings.name or folder.name
        check_name(settings.name, "environment")
        settings._source = str(self._root / SETTINGS_FILE)
        if described:
            description = describing(artefact)
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
    """Every settings file under `root`, in the order of their paths, except in hidden folders and packages.

    Links to folders are followed inside of `root`.
    """
    real_root, known = root.resolve(), settings_kinds().keys()
    for folder, folders, files in os.walk(root, onerror=_report_unreadable, followlinks=True):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith((".", "__"))
            and name != PACKAGES
            and _is_followed(Path(folder, name), real_root)
        )
        if MODEL_SETTINGS_FILE in files:
            yield Path(folder, MODEL_SETTINGS_FILE)
        elif (others := known & {*files}) and not any(Path(folder).glob(f"*/{MODEL_SETTINGS_FILE}")):
            yield Path(folder, min(others))


def _is_followed(folder: Path, root: Path) -> bool:
    """Whether models are searched in a folder. A link leads to another folder of the repository, or nowhere."""
    if not folder.is_symlink():
        return True
    target = folder.resolve()
    if not target.is_relative_to(root):
        _report_skipped(folder, "this link leads out of the repository, so it is not followed")
        return False
    if (folder.parent.resolve() / folder.name).is_relative_to(target):
        _report_skipped(folder, "this link leads to a folder that it is in, so it is not followed")
        return False
    return True


def _report_unreadable(error: OSError) -> None:
    _report_skipped(error.filename, f"{error.strerror}, so no models are searched in this folder")


@cache
def _report_skipped(folder: str | Path, reason: str) -> None:
    logger.warning("%s: %s", folder, reason)


def read_fields(path: Path) -> dict[str, Any]:
    """The fields of the settings that a file of the repository stands for. Raises InvalidSettings."""
    kind = settings_kinds().get(path.name)
    return read_json(path) if kind is None else read_settings_of(kind, path)


def read_settings(path: Path, root: Path) -> ModelSettings:
    """The settings in a file of the repository at `root`, with a name and a URI. Raises InvalidSettings."""
    if not path.resolve().is_relative_to(root.resolve()):
        raise InvalidSettings(f"{path}: a link that leads out of the repository")
    if path.name in settings_kinds():
        settings = validated(ModelSettings, read_fields(path), str(path))
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
    """Set `parameters.uri`, which runtimes need. The default is the folder of the settings."""
    if settings.parameters is None:
        settings.parameters = ModelParameters()
    if settings.parameters.uri is None:
        settings.parameters.uri = uri


def check_name(name: str, source: str) -> None:
    """Raise InvalidSettings for a name that is not safe in URLs and paths."""
    if not name or len(name) > MAX_NAME or _UNSAFE.search(name) or not name.isprintable():
        raise InvalidSettings(f'{source}: field "name": {name[:40]!r} is not a usable model name')

"""Describes a folder that holds the files of one model and no settings, as KServe's storage initializer fills it."""

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InvalidSettings
from ..extensions import extensions
from ..settings import MODEL_SETTINGS_FILE, SETTINGS_FILE

if TYPE_CHECKING:
    from ..ext import Artefact

logger = logging.getLogger("inferstream.repository")

NO_MODEL = "the folder holds files and no model: no model-settings.json, and no artefact such as model.joblib"


@cache
def _kinds() -> Sequence["Artefact"]:
    """The kinds that extensions bring. Those that have to begin in some way are first."""
    kinds = [kind for extension in extensions().values() for kind in extension.artefacts]
    return sorted(kinds, key=lambda kind: not kind.begins)


def settings_kinds() -> Mapping[str, "Artefact"]:
    """The kinds of settings files of other servers, by the names of the files."""
    return {name: kind for kind in _kinds() if kind.role == "settings" for name in kind.names}


def kind_of(path: Path) -> "Artefact | None":
    """The kind of artefact that a file is, by its name or else by its suffix; None for what is no artefact."""
    kinds = [kind for kind in _kinds() if kind.role in ("model", "archive")]
    kinds = [kind for kind in kinds if path.name in kind.names] or [
        kind for kind in kinds if path.suffix in kind.suffixes
    ]
    if not kinds or not path.is_file():
        return None
    return next((kind for kind in kinds if not kind.begins or _begins(path, kind.begins)), None)


def _begins(path: Path, start: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(start)) == start


def is_archive(path: Path) -> bool:
    """Whether a file has the suffix of one that holds the settings of its model, and so the name."""
    return any(kind.role == "archive" and path.suffix in kind.suffixes for kind in _kinds())


def describing(folder: Path) -> "tuple[Artefact, Path] | None":
    """The file that describes a folder as a model, and its kind; None without one."""
    files = ((kind, folder / name) for kind in _kinds() if kind.role == "folder" for name in kind.names)
    return next(((kind, file) for kind, file in files if file.is_file()), None)


def read_settings_of(kind: "Artefact", path: Path) -> dict[str, Any]:
    """The settings that the function of a kind reads. Raises InvalidSettings."""
    module, _, name = kind.settings.partition(":")
    described: dict[str, Any] = getattr(import_module(module), name)(path)
    return described


def described_by_files(folder: Path) -> dict[str, Any]:
    """The settings that the files of a folder stand for; empty for a folder without files.

    `folder` may be an artefact itself. Raises InvalidSettings for files without a model, and for several artefacts.
    """
    if (kind := kind_of(folder)) is not None:
        if kind.role == "archive":
            return read_settings_of(kind, folder)
        return {"implementation": kind.implementation, "parameters": {"uri": str(folder)}}
    described = _of_artefact(folder)
    if not described and (description := describing(folder)) is not None:
        described = read_settings_of(description[0], folder)
    if not described and next(_files(folder), None) is not None:
        raise InvalidSettings(NO_MODEL)
    return described


def folders_of_models(folder: Path) -> Sequence[Path]:
    """The folders in this one that hold the files of a model each; none where it holds those of one itself.

    The log names the others that hold files.
    """
    if not folder.is_dir() or _is_model(folder):
        return []
    below = sorted(path for path in folder.glob("[!._]*") if path.is_dir())
    models = [path for path in below if _is_model(path)]
    for path in below if models else ():
        if path not in models and next(_files(path), None) is not None:
            _report_skipped(path)
    return models


def _is_model(folder: Path) -> bool:
    return describing(folder) is not None or any(map(kind_of, folder.glob("[!.]*")))


@cache
def _report_skipped(folder: Path) -> None:
    logger.warning("%s: this folder is skipped: %s", folder, NO_MODEL)


def _of_artefact(folder: Path) -> dict[str, Any]:
    kinds = {path: kind for path in sorted(folder.glob("[!.]*")) if (kind := kind_of(path))}
    leading = [path for path, kind in kinds.items() if kind.leads][:1]
    chosen = leading or [path for path in kinds if path.stem == "model"] or [*kinds]
    if not chosen or (kinds[chosen[0]].yields and _holds_weights(folder)):
        return {}
    uri, kind = chosen[0], kinds[chosen[0]]
    if len(chosen) > 1:
        if not kind.is_part or any(other is not kind for other in kinds.values()):
            names = ", ".join(path.name for path in chosen)
            each = ", ".join(f"server start {path.name}" for path in chosen)
            raise InvalidSettings(
                f"several artefacts: {names}; a {MODEL_SETTINGS_FILE} chooses one, and so do {each}; "
                "several models need a folder each"
            )
        uri = folder  # the runtime finds the first of the parts
    return {"implementation": kind.implementation, "parameters": {"uri": str(uri)}}


def _holds_weights(folder: Path) -> bool:
    description = describing(folder)
    return description is not None and next(folder.glob(description[0].weights), None) is not None


def _files(folder: Path) -> Iterator[str]:
    """Files of a folder that may belong to a model."""
    for _, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "__"))]
        yield from (name for name in files if not name.startswith(".") and name != SETTINGS_FILE)

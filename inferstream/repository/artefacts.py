"""Models in folders without settings, for example those that the KServe storage initializer creates."""

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InvalidSettings
from ..extensions.discovery import extensions
from ..settings import MODEL_SETTINGS_FILE, SETTINGS_FILE

if TYPE_CHECKING:
    from ..ext import Artefact

logger = logging.getLogger("inferstream.repository")

NO_MODEL = "the folder holds files and no model: no model-settings.json, and no artefact such as model.joblib"


@cache
def _kinds() -> Sequence["Artefact"]:
    """Return the artefact kinds of all extensions. Kinds with magic bytes (`begins`) come first."""
    kinds = [kind for extension in extensions().values() for kind in extension.artefacts]
    return sorted(kinds, key=lambda kind: not kind.begins)


def settings_kinds() -> Mapping[str, "Artefact"]:
    """Return the kinds of settings files of other servers, by file name."""
    return {name: kind for kind in _kinds() if kind.role == "settings" for name in kind.names}


def find_kind(path: Path) -> "Artefact | None":
    """Return the artefact kind of a file, by its name or its suffix, or None if it is not an artefact."""
    kinds = [kind for kind in _kinds() if kind.role in ("model", "archive")]
    kinds = [kind for kind in kinds if path.name in kind.names] or [
        kind for kind in kinds if path.suffix in kind.suffixes
    ]
    if not kinds or not path.is_file():
        return None
    return next((kind for kind in kinds if not kind.begins or _begins(path, kind.begins)), None)


def model_suffixes() -> list[str]:
    """Return the suffixes of the files that the server recognizes as a model."""
    kinds = [kind for kind in _kinds() if kind.role in ("model", "archive")]
    return sorted({suffix for kind in kinds for suffix in kind.suffixes})


def _begins(path: Path, start: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(start)) == start


def is_archive(path: Path) -> bool:
    """Whether a file has the suffix of an archive that contains the settings and name of its model."""
    return any(kind.role == "archive" and path.suffix in kind.suffixes for kind in _kinds())


def find_description(folder: Path) -> "tuple[Artefact, Path] | None":
    """Return the file that describes a folder as a model, with its kind, or None."""
    files = ((kind, folder / name) for kind in _kinds() if kind.role == "folder" for name in kind.names)
    return next(((kind, file) for kind, file in files if file.is_file()), None)


def read_artefact_settings(kind: "Artefact", path: Path) -> dict[str, Any]:
    """Read the settings with the function of a kind. Raises InvalidSettings."""
    module, _, name = kind.settings.partition(":")
    described: dict[str, Any] = getattr(import_module(module), name)(path)
    return described


def infer_settings(folder: Path) -> dict[str, Any]:
    """Return the settings implied by the files in a folder, or an empty dictionary if it has no files.

    `folder` can also be an artefact. Raises InvalidSettings if there are files but no model, or several
    artefacts.
    """
    if (kind := find_kind(folder)) is not None:
        if kind.role == "archive":
            return read_artefact_settings(kind, folder)
        return {"implementation": kind.implementation, "parameters": {"uri": str(folder)}}
    described = _settings_from_artefact(folder)
    if not described and (description := find_description(folder)) is not None:
        described = read_artefact_settings(description[0], folder)
    if not described and next(_files(folder), None) is not None:
        raise InvalidSettings(NO_MODEL)
    return described


def find_model_folders(folder: Path) -> Sequence[Path]:
    """Return the subfolders with the files of a model. Empty if this folder itself contains a model.

    Other subfolders with files are then skipped with a warning.
    """
    if not folder.is_dir() or _is_model(folder):
        return []
    below = sorted(path for path in folder.glob("[!._]*") if path.is_dir())
    models = [path for path in below if _is_model(path)]
    for path in below if models else ():
        if path not in models and next(_files(path), None) is not None:
            _warn_skip(path)
    return models


def _is_model(folder: Path) -> bool:
    return find_description(folder) is not None or any(map(find_kind, folder.glob("[!.]*")))


@cache
def _warn_skip(folder: Path) -> None:
    logger.warning("%s: folder skipped: %s", folder, NO_MODEL)


def _settings_from_artefact(folder: Path) -> dict[str, Any]:
    kinds = {path: kind for path in sorted(folder.glob("[!.]*")) if (kind := find_kind(path))}
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
        uri = folder  # the runtime finds the first part
    return {"implementation": kind.implementation, "parameters": {"uri": str(uri)}}


def _holds_weights(folder: Path) -> bool:
    description = find_description(folder)
    return description is not None and next(folder.glob(description[0].weights), None) is not None


def _files(folder: Path) -> Iterator[str]:
    """Yield the files in a folder that may be part of a model."""
    for _, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "__"))]
        yield from (name for name in files if not name.startswith(".") and name != SETTINGS_FILE)

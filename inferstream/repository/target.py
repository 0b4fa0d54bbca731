"""Resolution of the target of a command or program: a folder of models, an app or an artefact."""

import re
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import HINT, InvalidSettings
from ..extensions.discovery import plugins
from ..extensions.entries import RUNTIMES
from ..imports.folders import real_path, share_folders
from ..imports.trusted import TrustedRuntimes
from ..settings import MODEL_SETTINGS_FILE, load_model_settings
from .artefacts import find_kind, infer_settings, model_suffixes
from .folder import read_fields, settings_files

if TYPE_CHECKING:
    from ..functions.app import App

APP = "app"
"""The default name of an app in its module."""

MAX_NAMES = 8
"""The maximum number of names in a folder that an error message lists."""


class FoundTarget(NamedTuple):
    """The folder of a target, and the code or artefact to serve from it."""

    folder: Path
    code: str | None
    """The import path of code, or the file name of an artefact. None for a folder of models."""

    def load_app(self) -> "tuple[App, str]":
        """Import the app, and return it with its import path relative to the folder of its package.

        Raises InvalidSettings.
        """
        from .apps import AppRepository  # imported lazily: only needed for apps

        assert self.code is not None
        folder = self.folder.resolve()
        share_folders([folder])
        path, folder = qualify_import_path(self.code, folder)
        return AppRepository(path, folder).app, path

    def models(self) -> dict[str, dict[str, Any]]:
        """Return the settings fields of each model in the folder, by the relative path of their file.

        The fields of an artefact without settings have an empty path. Runtime names are replaced by import
        paths. Raises InvalidSettings for a file that is not valid JSON.
        """
        folder = self.folder
        models = {path.relative_to(folder).as_posix(): read_fields(path) for path in settings_files(folder)}
        if not models and self.code is None:
            with suppress(InvalidSettings):  # no artefact, or several
                models = {"": fields} if (fields := infer_settings(folder)) else {}
        for fields in models.values():
            if (runtime := plugins(RUNTIMES).get(str(fields.get("implementation")))) is not None:
                fields["implementation"] = runtime.value
        return models


def resolve_target(target: str) -> FoundTarget:
    """Resolve the target of a command or program.

    Code is `module:app` in the working directory, the path of a file (`app.py` or `src/app.py:name`), or a
    folder with an `app.py` and no models. A file without `:name` can also contain model classes (see
    `repository_of_file`). If a `model-settings.json` next to a Python file or an artefact describes it, the
    target is its folder. Raises InvalidSettings.
    """
    folder = Path(target)
    if folder.is_dir() and _holds_app(folder) and TrustedRuntimes.current() is not None:
        raise InvalidSettings(
            f"{folder} has an {APP}.py, and only trusted runtimes may run{HINT}name the file if it is yours: "
            f"server start {folder / APP}.py"
        )
    if folder.is_dir():
        return FoundTarget(folder, f"{APP}:{APP}" if _holds_app(folder) else None)
    module, colon, name = target.rpartition(":")
    if not colon:
        module, name = target, APP
    file = Path(module)
    if file.suffix == ".py":
        if not file.is_file():
            raise InvalidSettings(f"there is no file {module}{HINT}{_step_for_missing(file)}")
        if not file.stem.isidentifier():
            raise InvalidSettings(f"{module}: Python cannot import a file of this name")
        if not name.isidentifier():
            raise InvalidSettings(f'"{target}" is not of the form {module}:{APP}')
        if not colon and _has_settings(file):
            return FoundTarget(file.parent, None)
        return FoundTarget(real_path(file).parent, f"{file.stem}:{name}")
    if find_kind(folder) is not None:
        is_described = (folder.parent / MODEL_SETTINGS_FILE).is_file()
        return FoundTarget(folder.parent, None if is_described else folder.name)
    if folder.is_symlink() and not folder.exists():
        raise InvalidSettings(f"{target} is a link to {folder.readlink()}, which is missing")
    if not colon and not folder.exists():
        raise InvalidSettings(f"there is no file or folder {target}{HINT}{_step_for_missing(folder)}")
    if not colon:
        raise InvalidSettings(f"{target}: no runtime reads files of this kind{HINT}{_step_for_file()}")
    if "/" in module:
        raise InvalidSettings(f'"{target}": a module has no slash; write {module}.py:{name}')
    if not all(part.isidentifier() for part in [*module.split("."), name]):
        raise InvalidSettings(f'"{target}" is not of the form module:app')
    return FoundTarget(Path.cwd(), f"{module}:{name}")


def _step_for_missing(path: Path) -> str:
    """Return the next step if the target is missing, such as a similar name in its folder."""
    folder = path.parent
    if not folder.is_dir():
        return f"there is no folder {folder} either; paths are relative to {Path.cwd()}"
    servable = [
        each.name for each in folder.iterdir() if each.is_dir() or each.suffix == ".py" or find_kind(each)
    ]
    alike = [name for name in servable if Path(name).suffix == path.suffix]
    if close := get_close_matches(path.name, alike, n=1):
        return f"did you mean {folder / close[0]}?"
    names = [name for name in sorted(servable) if not name.startswith((".", "_"))]
    listed = (
        f"{folder.resolve()} has {', '.join(names[:MAX_NAMES])}" if names else f"{folder.resolve()} is empty"
    )
    return f"name a folder, a file such as app.py or model.joblib, or module:app; {listed}"


def _step_for_file() -> str:
    return f"name a folder, an app such as app.py, or a file that ends in {', '.join(model_suffixes())}"


def qualify_import_path(path: str, folder: Path) -> tuple[str, Path]:
    """Return the import path `module:name` of a file within its package, and the package's parent folder.

    Both are unchanged unless the file imports from its package. A file that imports its neighbours by plain
    names only works without the package name.
    """
    module = path.partition(":")[0]
    file = folder / f"{module}.py"
    root, names = folder, [module]
    while (root / "__init__.py").is_file() and root.name.isidentifier():
        names.insert(0, root.name)
        root = root.parent
    if root == folder or not file.is_file():
        return path, folder
    share_folders([root])
    return (
        (".".join(names) + path[len(module) :], root) if _imports_package(file, names[0]) else (path, folder)
    )


def _imports_package(file: Path, package: str) -> bool:
    """Whether a file imports from its package, relatively or by name."""
    name = re.escape(package).encode()
    return (
        re.search(rb"^\s*(from\s+(\.|%b\b)|import\s+%b\b)" % (name, name), file.read_bytes(), re.M)
        is not None
    )


def _holds_app(folder: Path) -> bool:
    return (folder / f"{APP}.py").is_file() and next(settings_files(folder), None) is None


def find_unserved_app(folder: Path) -> Path | None:
    """Return the file of an app that is not served, because its folder has models."""
    file = folder / f"{APP}.py"
    return file if file.is_file() and re.search(rb"\bApp\(", file.read_bytes()) else None


def _has_settings(file: Path) -> bool:
    """Whether the settings next to a file refer to a class in it."""
    path = file.parent / MODEL_SETTINGS_FILE
    try:
        return path.is_file() and load_model_settings(path).implementation_.startswith(f"{file.stem}.")
    except InvalidSettings:
        return True  # the server reports the error

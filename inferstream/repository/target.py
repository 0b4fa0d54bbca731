"""The target of a command or a program, which is served: a folder of models, or an app."""

import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import InvalidSettings
from ..extensions import RUNTIMES, plugins
from ..imports.folders import real_path, share_folders
from ..settings import MODEL_SETTINGS_FILE, load_model_settings
from .artefacts import described_by_files, kind_of
from .folder import read_fields, settings_files

if TYPE_CHECKING:
    from ..functions.app import App

APP = "app"
"""The name of an app in its module, where the command names none."""


class FoundTarget(NamedTuple):
    """The folder to work in, and what is served of it."""

    folder: Path
    code: str | None
    """The import path of code, or the file of an artefact; None for a folder of models."""

    def load_app(self) -> "tuple[App, str]":
        """The app that the code is, and its import path from the folder of its package. Raises InvalidSettings."""
        from .apps import AppRepository  # late: only apps need the modules of functions

        assert self.code is not None
        folder = self.folder.resolve()
        share_folders([folder])
        path, folder = in_package(self.code, folder)
        return AppRepository(path, folder).app, path

    def models(self) -> dict[str, dict[str, Any]]:
        """The fields of the settings of each model in the folder, by the path of their file in it.

        Fields that an artefact without settings stands for have an empty path. The name of a runtime is replaced by
        its import path. Raises InvalidSettings for a file that is not valid JSON.
        """
        folder = self.folder
        models = {path.relative_to(folder).as_posix(): read_fields(path) for path in settings_files(folder)}
        if not models and self.code is None:
            with suppress(InvalidSettings):  # there is no artefact, or a choice of several
                models = {"": fields} if (fields := described_by_files(folder)) else {}
        for fields in models.values():
            if (runtime := plugins(RUNTIMES).get(str(fields.get("implementation")))) is not None:
                fields["implementation"] = runtime.value
        return models


def targeted(target: str) -> FoundTarget:
    """What a command or a program names.

    Code is `module:app` in the present folder, the path of a file, `app.py` or `src/app.py:name`, or a folder with an
    `app.py` and no model. A file without a name may also hold classes of models (`repository_of_file`). A file that
    the `model-settings.json` beside it names stands for its folder, and so does an artefact beside such a file.
    Raises InvalidSettings.
    """
    folder = Path(target)
    if folder.is_dir():
        return FoundTarget(folder, f"{APP}:{APP}" if _holds_app(folder) else None)
    module, colon, name = target.rpartition(":")
    if not colon:
        module, name = target, APP
    file = Path(module)
    if file.suffix == ".py":
        if not file.is_file():
            raise InvalidSettings(f"there is no file {module}")
        if not file.stem.isidentifier():
            raise InvalidSettings(f"{module}: Python cannot import a file of this name")
        if not name.isidentifier():
            raise InvalidSettings(f'"{target}" is not of the form {module}:{APP}')
        if not colon and _is_described(file):
            return FoundTarget(file.parent, None)
        return FoundTarget(real_path(file).parent, f"{file.stem}:{name}")
    if kind_of(folder) is not None:
        is_described = (folder.parent / MODEL_SETTINGS_FILE).is_file()
        return FoundTarget(folder.parent, None if is_described else folder.name)
    if folder.is_symlink() and not folder.exists():
        raise InvalidSettings(f"{target} is a link to {folder.readlink()}, which is missing")
    if not colon and not folder.exists():
        raise InvalidSettings(f"there is no file or folder {target}; an app is app.py or module:app")
    if not colon:
        raise InvalidSettings(f"{target} is not a folder, nor an app (app.py or module:app)")
    if "/" in module:
        raise InvalidSettings(f'"{target}": a module has no slash; write {module}.py:{name}')
    if not all(part.isidentifier() for part in [*module.split("."), name]):
        raise InvalidSettings(f'"{target}" is not of the form module:app')
    return FoundTarget(Path.cwd(), f"{module}:{name}")


def in_package(path: str, folder: Path) -> tuple[str, Path]:
    """The import path `module:name` of a file in a package, and the folder that holds the package.

    Unchanged, unless the file imports modules of the package: a file that imports its neighbours by plain names works
    only without the package's name.
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
    return (".".join(names) + path[len(module) :], root) if _imports_of(file, names[0]) else (path, folder)


def _imports_of(file: Path, package: str) -> bool:
    """Whether a file imports from its package, relatively or by the name of the package."""
    name = re.escape(package).encode()
    return (
        re.search(rb"^\s*(from\s+(\.|%b\b)|import\s+%b\b)" % (name, name), file.read_bytes(), re.M)
        is not None
    )


def _holds_app(folder: Path) -> bool:
    return (folder / f"{APP}.py").is_file() and next(settings_files(folder), None) is None


def _is_described(file: Path) -> bool:
    """Whether the settings beside a file name a class in it."""
    path = file.parent / MODEL_SETTINGS_FILE
    try:
        return path.is_file() and load_model_settings(path).implementation_.startswith(f"{file.stem}.")
    except InvalidSettings:
        return True  # the server says what is wrong with it

"""Repositories for a single file: an app, model classes, or an artefact that a runtime loads."""

import inspect
from pathlib import Path
from types import ModuleType

from ..compat.finder import install
from ..errors import InvalidSettings
from ..functions.app import App
from ..imports.implementation import import_shared_module
from ..model import MLModel, StepModel
from ..settings import ModelSettings
from ..settings.sources import validate
from .apps import AppRepository, CodeRepository, import_user_code
from .artefacts import is_archive
from .base import Versions
from .folder import FolderRepository, check_name, complete
from .target import APP, qualify_import_path

NOTHING = (
    "{file} has no App and no class of models; to serve functions, write `from inferstream import App`, "
    "`app = App()`, and `@app.model` above each"
)


class FileRepository(CodeRepository):
    """A repository of the model classes in one file. Each model is named after its class."""

    def __init__(self, module: str, folder: Path) -> None:
        self._module = module
        super().__init__(str(folder / f"{module.rpartition('.')[2]}.py"))

    def _import_models(self) -> Versions:
        what = f"{Path(self._source).name} cannot be imported"
        module = import_file(what, self._module, self._source)
        return [self._build_settings(kind) for kind in classes_in(module)]

    def _build_settings(self, kind: type[MLModel]) -> ModelSettings:
        path = f"{self._module}.{kind.__name__}"
        settings = validate(ModelSettings, {"implementation": path, "name": kind.__name__}, self._source)
        settings._source = self._source
        check_name(settings.name, self._source)
        complete(settings, str(Path(self._source).parent))
        return settings


class ArtefactRepository(FolderRepository):
    """A repository of one artefact file. Other files in its folder are ignored.

    The model is named after the file, unless the file contains a name.
    """

    classic = False

    def __init__(self, file: Path, name: str | None) -> None:
        super().__init__(file.parent, name or (None if is_archive(file) else file.stem))
        self._artefact = file

    def models(self) -> Versions:
        """Return the settings of the model."""
        return self._scan()[0]

    _scan = FolderRepository._find_models


def repository_of_file(
    path: str, folder: Path, model_name: str | None = None
) -> AppRepository | FileRepository | ArtefactRepository:
    """Return the repository of `module:name`, imported from `folder`, or of an artefact in it.

    `model_name` is the name of an artefact's model. If `name` is the default and the module has no app of
    that name, its only app or its model classes are used.

    Raises InvalidSettings with a one-line message if the app cannot be served or the file has no model.
    """
    module_name, colon, name = path.partition(":")
    if not colon:
        return ArtefactRepository(folder / path, model_name)
    is_file = (folder / f"{module_name.rpartition('.')[2]}.py").is_file()
    path, folder = qualify_import_path(path, folder)
    module_name = path.partition(":")[0]
    source = folder / f"{module_name.rpartition('.')[2]}.py"
    if name != APP or not is_file:
        return AppRepository(path, folder)
    module = import_file(f'app "{path}"', module_name, str(source))
    if hasattr(module, APP):
        return AppRepository(path, folder)
    apps = [name for name, value in vars(module).items() if isinstance(value, App)]
    if len(apps) == 1:
        return AppRepository(f"{module_name}:{apps[0]}", folder)
    if apps:
        raise InvalidSettings(f"{source.name} has several apps: {', '.join(apps)}; name one, as {path}")
    if not classes_in(module):
        raise InvalidSettings(NOTHING.format(file=source.name))
    return FileRepository(module_name, folder)


def import_file(what: str, name: str, source: str) -> ModuleType:
    """Import a file. Raises InvalidSettings with `what` and the line of the error in the code."""
    install()
    return import_user_code(what, source, lambda: import_shared_module(name, source))


def classes_in(module: ModuleType) -> list[type[MLModel]]:
    """Return the model classes defined in a module, except base classes of its other model classes."""
    kinds = [
        kind
        for kind in vars(module).values()
        if isinstance(kind, type)
        and issubclass(kind, MLModel)
        and kind not in (MLModel, StepModel)
        and kind.__module__ == module.__name__
        and not kind.__name__.startswith("_")
        and not inspect.isabstract(kind)
    ]
    return [kind for kind in kinds if not any(kind is not other and kind in other.__mro__ for other in kinds)]

"""The repository of one file: the app in it, its classes of models, or the model that a runtime reads from it."""

import inspect
from pathlib import Path
from types import ModuleType

from ..compat.finder import install
from ..errors import InvalidSettings
from ..functions.app import App
from ..imports.implementation import shared_module
from ..model import MLModel, StepModel
from ..settings import ModelSettings
from ..settings.sources import validated
from .apps import AppRepository, CodeRepository, importing_code
from .artefacts import is_archive
from .base import Versions
from .folder import FolderRepository, check_name, complete
from .target import APP, in_package

NOTHING = (
    "{file} has no App and no class of models; to serve functions, write `from inferstream import App`, "
    "`app = App()`, and `@app.model` above each"
)


class FileRepository(CodeRepository):
    """The classes of models in one file. Each is a model of the name of its class."""

    def __init__(self, module: str, folder: Path) -> None:
        self._module = module
        super().__init__(str(folder / f"{module.rpartition('.')[2]}.py"))

    def _imported(self) -> Versions:
        what = f"{Path(self._source).name} cannot be imported"
        module = import_file(what, self._module, self._source)
        return [self._settings_of(kind) for kind in classes_in(module)]

    def _settings_of(self, kind: type[MLModel]) -> ModelSettings:
        path = f"{self._module}.{kind.__name__}"
        settings = validated(ModelSettings, {"implementation": path, "name": kind.__name__}, self._source)
        settings._source = self._source
        check_name(settings.name, self._source)
        complete(settings, str(Path(self._source).parent))
        return settings


class ArtefactRepository(FolderRepository):
    """The one model in a file that a runtime reads, whatever else is in its folder.

    Its name is that of the file, unless the file says one.
    """

    classic = False

    def __init__(self, file: Path, name: str | None) -> None:
        super().__init__(file.parent, name or (None if is_archive(file) else file.stem))
        self._artefact = file

    def models(self) -> Versions:
        """The settings of the model."""
        return self._scan()[0]

    _scan = FolderRepository._described


def repository_of_file(
    path: str, folder: Path, model_name: str | None = None
) -> AppRepository | FileRepository | ArtefactRepository:
    """The repository of `module:name`, imported from `folder`, or of an artefact in it, under `model_name`.

    Where the module has no app of the usual name, it is that of its only app, or of its classes of models.
    Raises InvalidSettings, in one line for an app that cannot be served, and with the next step for a file without
    any model.
    """
    module_name, colon, name = path.partition(":")
    if not colon:
        return ArtefactRepository(folder / path, model_name)
    is_file = (folder / f"{module_name.rpartition('.')[2]}.py").is_file()
    path, folder = in_package(path, folder)
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
    """The module in a file. Raises InvalidSettings that names `what`, and the place of an error in the code."""
    install()
    return importing_code(what, source, lambda: shared_module(name, source))


def classes_in(module: ModuleType) -> list[type[MLModel]]:
    """The classes of models that a module defines, without those that others of them extend."""
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

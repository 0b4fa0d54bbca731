"""The repository of a file of Python: the app in it, or its classes of models."""

import asyncio
import inspect
from pathlib import Path
from types import ModuleType

from ..compat.finder import install
from ..errors import InferstreamError, InvalidSettings, ModelNotFound
from ..functions.app import App
from ..imports.implementation import shared_module
from ..model import MLModel, StepModel
from ..settings import ModelSettings
from ..settings.sources import validated
from .apps import AppRepository, importing_code
from .base import BrokenModel, BrokenModels, ModelRepository, Versions
from .folder import check_name, complete

APP = "app"
"""The name of an app where the command names none."""

NOTHING = (
    "{file} has no App and no class of models; to serve functions, write `from inferstream import App`, "
    "`app = App()`, and `@app.model` above each"
)


class FileRepository(ModelRepository):
    """The classes of models in one file. Each is a model of the name of its class.

    Each `list` imports changed code again, as with an app. Raises InvalidSettings.
    """

    classic = False

    def __init__(self, module: str, folder: Path) -> None:
        self._module = module
        self._source = str(folder / f"{module.rpartition('.')[2]}.py")
        self._broken: BrokenModels = []
        self._found = self._imported()

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

    def models(self) -> Versions:
        """The settings of every model as the file was imported last."""
        return self._found

    async def list(self) -> Versions:
        try:
            self._found = await asyncio.to_thread(self._imported)
        except InferstreamError as error:
            self._broken = [
                BrokenModel(each.name, error.message, each.version, self._source) for each in self._found
            ]
            return []
        self._broken = []
        return self._found

    async def broken(self) -> BrokenModels:
        return self._broken

    def concerns(self, path: Path) -> bool:
        return path.suffix in (".py", ".json")

    async def find(self, name: str) -> Versions:
        found = [settings for settings in await self.list() if settings.name == name]
        if self._broken:
            raise InvalidSettings(f"Model {name} cannot be loaded: {self._broken[0].reason}")
        if not found:
            raise ModelNotFound(name)
        return found


def repository_of_code(path: str, folder: Path) -> AppRepository | FileRepository:
    """The repository of `module:name`, imported from `folder`.

    Where the module has no app of the usual name, it is that of its only app, or of its classes of models.
    Raises InvalidSettings, in one line for an app that cannot be served, and with the next step for a file without
    any model.
    """
    module_name, _, name = path.partition(":")
    source = folder / f"{module_name.rpartition('.')[2]}.py"
    if name != APP or not source.is_file():
        return AppRepository(path, folder)
    module = import_file(f'app "{path}"', module_name, str(source))
    if hasattr(module, APP):
        return AppRepository(path, folder)
    apps = [name for name, found in vars(module).items() if isinstance(found, App)]
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
    found = [
        kind
        for kind in vars(module).values()
        if isinstance(kind, type)
        and issubclass(kind, MLModel)
        and kind not in (MLModel, StepModel)
        and kind.__module__ == module.__name__
        and not kind.__name__.startswith("_")
        and not inspect.isabstract(kind)
    ]
    return [kind for kind in found if not any(kind is not other and kind in other.__mro__ for other in found)]

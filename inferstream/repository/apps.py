"""The repository of an app: its functions as models."""

import asyncio
import importlib
import os
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from ..compat.finder import MODULES, install
from ..errors import InferstreamError, InvalidSettings, ModelLoadFailed, ModelNotFound
from ..functions.app import App
from ..imports.folders import real_path
from ..imports.implementation import resolve_app
from ..settings import ModelSettings
from ..telemetry.tracebacks import one_line
from .base import BrokenModel, BrokenModels, ModelRepository, Versions
from .folder import check_name

PACKAGE = f"{Path(__file__).parents[1]}{os.sep}"
IMPORTLIB = f"{Path(importlib.__file__).parent}{os.sep}"


class CodeRepository(ModelRepository):
    """The models of a module in the file `source`. Each `list` imports changed code again.

    Code that fails makes broken models of those that were there before. Raises InvalidSettings, in one line, for code
    that cannot be served.
    """

    classic = False
    """Whether it is an app of BlazeRPC."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._broken: BrokenModels = []
        self._models = self._imported()

    @abstractmethod
    def _imported(self) -> Versions:
        """The settings of every model, after an import of the code if it has changed. Raises InvalidSettings."""

    def models(self) -> Versions:
        """The settings of every model as the code was imported last."""
        return self._models

    async def list(self) -> Versions:
        try:
            self._models = await asyncio.to_thread(self._imported)
        except InferstreamError as error:
            self._broken = [
                BrokenModel(settings.name, error.message, settings.version, self._source)
                for settings in self._models
            ]
            return []
        self._broken = []
        return self._models

    async def broken(self) -> BrokenModels:
        return self._broken

    async def find(self, name: str) -> Versions:
        try:
            return await super().find(name)
        except ModelNotFound:
            if self._broken:  # the code that does not run may have it
                raise InvalidSettings(f"Model {name} cannot be loaded: {self._broken[0].reason}") from None
            raise

    def concerns(self, path: Path) -> bool:
        """Code and settings. The folder of code holds other files too, such as the server's own log."""
        return path.suffix in (".py", ".json")


class AppRepository(CodeRepository):
    """The models of the app that `path` (`module:name`) names, imported from `folder`."""

    def __init__(self, path: str, folder: Path) -> None:
        self._path = path
        super().__init__(str(folder / f"{path.partition(':')[0].rpartition('.')[2]}.py"))

    def _imported(self) -> Versions:
        self.app = load_app(self._path, self._source)
        self.classic = self.app.classic
        return models_of(self.app, self._path, self._source)


def load_app(path: str, source: str | None) -> App:
    """Import an app, and check it against its lock file. Raises InvalidSettings."""
    install()
    app: Any = importing_code(f'app "{path}"', source, lambda: resolve_app(path, source))
    if not isinstance(app, App):
        name = type(app).__name__
        package = type(app).__module__.partition(".")[0]
        theirs = f"; uninstall {package}, so that its names are inferstream's" if package in MODULES else ""
        raise InvalidSettings(f'app "{path}" is a {name}, not an App{theirs}')
    if not app.functions:
        raise InvalidSettings(
            f'app "{path}" has no models; mark functions with @{path.partition(":")[2]}.model'
        )
    app.lock = None
    for function in app:
        app.rpc_of(function)
    return app


Imported = TypeVar("Imported")


def importing_code(what: str, source: str | None, imported: Callable[[], Imported]) -> Imported:
    """What `imported` returns. Raises InvalidSettings that names the place of an error in the user's code."""
    try:
        return imported()
    except InferstreamError:
        raise
    except (Exception, SystemExit) as error:
        reason = _reason(error, real_path(source or ".").parent)
        raise InvalidSettings(f"{what}: {reason}") from error


async def app_of(settings: ModelSettings) -> App | None:
    """The app of a model, as this process has it; None for a model of no app. Raises ModelLoadFailed.

    A process that has the model in workers, or from another front end, imports the app itself.
    """
    if (provided := settings.provided) is not None:
        described = getattr(provided, "described", None)
        return getattr(described, "app", None)
    path, _, model = settings.implementation_.partition("/")
    if ":" not in path or not model:
        return None
    try:
        return await asyncio.to_thread(load_app, path, settings.source)
    except InvalidSettings as error:
        cause = error.__cause__ or error
        kind = type(cause).__name__
        raise ModelLoadFailed(f'Model {settings.name}: app "{path}" cannot be imported: {kind}') from cause


def served_by(app: App) -> list[ModelSettings]:
    """The models of an app of this program. Worker processes import it if its module can be imported."""
    path, source = app.import_path()
    return models_of(app, path, source)


def models_of(app: App, path: str | None, source: str | None) -> list[ModelSettings]:
    """The settings of an app's models. Raises InvalidSettings for a name that is not safe in URLs."""
    for function in app:
        check_name(function.name, function.location)
    return app.settings(path, source)


def _reason(error: BaseException, folder: Path) -> str:
    """The error of an import in one line, with the where in the user's code where it happened.

    Clients get it from the repository index, so it names files by their where in `folder`.
    """
    if isinstance(error, SyntaxError):
        return f"{_within(error.filename or '', folder)}, line {error.lineno}: SyntaxError: {error.msg}"
    where = ""
    traceback = error.__traceback__
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if not file.startswith(("<frozen importlib", PACKAGE, IMPORTLIB)):
            where = f"{_within(file, folder)}, line {traceback.tb_lineno}: "
        traceback = traceback.tb_next
    return f"{where}{one_line(error)}"


def _within(file: str, folder: Path) -> str:
    path = Path(file)
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else path.name

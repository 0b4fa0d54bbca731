"""The repository of an app, which serves its functions as models."""

import asyncio
import importlib
import os
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from ..compat.finder import MODULES, install
from ..errors import HINT, InferstreamError, InvalidSettings, ModelLoadFailed, ModelNotFound
from ..functions.app import App
from ..imports.folders import real_path
from ..imports.implementation import resolve_app
from ..settings import ModelSettings
from ..telemetry.tracebacks import summarize_error
from .base import BrokenModel, BrokenModels, ModelRepository, Versions
from .folder import check_name

PACKAGE = f"{Path(__file__).parents[1]}{os.sep}"
WRITE_APP = "write `from inferstream import App`, `app = App()`, and `@app.model` above each function"

STEP_FOR_OTHER_OBJECT = f"name the variable of an App, or {WRITE_APP}"

STEPS_FOR_OTHER_APPS = dict.fromkeys(
    ("fastapi", "starlette"),
    "serve it with uvicorn, and mount an `inferstream.Application` in it to add models; or " + WRITE_APP,
)
"""The next step for an application of another framework, by the name of its package."""

IMPORTLIB = f"{Path(importlib.__file__).parent}{os.sep}"


class CodeRepository(ModelRepository):
    """A repository of the models in the Python file `source`. Each call of `list` reloads changed code.

    If the new code fails, the previous models become broken models. Raises InvalidSettings with a one-line
    message for code that cannot be served.
    """

    classic = False
    """Whether it is a BlazeRPC app."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._broken: BrokenModels = []
        self._models = self._import_models()

    @abstractmethod
    def _import_models(self) -> Versions:
        """Return the settings of every model.

        The code is imported again if it has changed. Raises InvalidSettings.
        """

    def models(self) -> Versions:
        """Return the settings of every model as of the last import."""
        return self._models

    async def list(self) -> Versions:
        try:
            self._models = await asyncio.to_thread(self._import_models)
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
            if self._broken:  # the broken code may define it
                raise InvalidSettings(f"Model {name} cannot be loaded: {self._broken[0].reason}") from None
            raise

    def concerns(self, path: Path) -> bool:
        """Whether a file is code or settings. The folder also has other files, such as the server's log."""
        return path.suffix in (".py", ".json")


class AppRepository(CodeRepository):
    """The models of the app at `path` (`module:name`), imported from `folder`."""

    def __init__(self, path: str, folder: Path) -> None:
        self._path = path
        super().__init__(str(folder / f"{path.partition(':')[0].rpartition('.')[2]}.py"))

    def _import_models(self) -> Versions:
        self.app = load_app(self._path, self._source)
        self.classic = self.app.classic
        return app_settings(self.app, self._path, self._source)


def load_app(path: str, source: str | None) -> App:
    """Import an app, and check it against its lock file. Raises InvalidSettings."""
    install()
    app: Any = import_user_code(f'app "{path}"', source, lambda: resolve_app(path, source))
    if not isinstance(app, App):
        name = type(app).__name__
        package = type(app).__module__.partition(".")[0]
        theirs = f"; uninstall {package}, so that its names are inferstream's" if package in MODULES else ""
        step = f"{HINT}{STEPS_FOR_OTHER_APPS.get(package, STEP_FOR_OTHER_OBJECT)}"
        raise InvalidSettings(f'app "{path}" is a {name}, not an App{theirs or step}')
    if not app.functions:
        raise InvalidSettings(
            f'app "{path}" has no models; mark functions with @{path.partition(":")[2]}.model'
        )
    app.lock = None
    for function in app:
        app.rpc_of(function)
    return app


Imported = TypeVar("Imported")


def import_user_code(what: str, source: str | None, imported: Callable[[], Imported]) -> Imported:
    """Call `imported` and return its result.

    An error other than InferstreamError becomes an InvalidSettings with the file and line in the user's code.
    """
    try:
        return imported()
    except InferstreamError:
        raise
    except (Exception, SystemExit) as error:
        reason = _reason(error, real_path(source or ".").parent)
        raise InvalidSettings(f"{what}: {reason}") from error


async def find_app(settings: ModelSettings) -> App | None:
    """Return the app of a model, or None if the model is not part of an app.

    If the model runs in another process, the app is also imported in this one. Raises ModelLoadFailed.
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


def app_model_settings(app: App) -> list[ModelSettings]:
    """Return the model settings of an app. Worker processes import the app if its module can be imported."""
    path, source = app.import_path()
    return app_settings(app, path, source)


def app_settings(app: App, path: str | None, source: str | None) -> list[ModelSettings]:
    """Return the settings of an app's models. Raises InvalidSettings for a name that is not safe in URLs."""
    for function in app:
        check_name(function.name, function.location)
    return app.settings(path, source)


def _reason(error: BaseException, folder: Path) -> str:
    """Return a one-line message for an import error, with the file and line in the user's code.

    Clients can read it in the repository index, so file names are relative to `folder`.
    """
    if isinstance(error, SyntaxError):
        place = f"{_within(error.filename or '', folder)}, line {error.lineno}"
        return f"{place}: SyntaxError: {error.msg}{_at_column(error)}"
    where = ""
    traceback = error.__traceback__
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if not file.startswith(("<frozen importlib", PACKAGE, IMPORTLIB)):
            where = f"{_within(file, folder)}, line {traceback.tb_lineno}: "
        traceback = traceback.tb_next
    return f"{where}{summarize_error(error)}{_step_for(error, folder)}"


def _at_column(error: SyntaxError) -> str:
    """Return the line of a syntax error, with a mark before the column."""
    line, column = (error.text or "").rstrip(), (error.offset or 1) - 1
    if not line.strip():
        return ""
    marked = f"{line[:column]}>>>{line[column:]}".strip()
    return f"{HINT}correct the line at >>>: {marked}"


def _step_for(error: BaseException, folder: Path) -> str:
    """Return the next step after an import error, or "" if the message of the error is enough."""
    if isinstance(error, ImportError) and "no known parent package" in str(error):
        step = "add an __init__.py to its folder, or start MODULE:app from the folder above"
        return f"{HINT}{step}" if not (folder / "__init__.py").exists() else ""
    return ""


def _within(file: str, folder: Path) -> str:
    path = Path(file)
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else path.name

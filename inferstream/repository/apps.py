"""The repository of an app: its functions as models."""

import asyncio
from pathlib import Path
from typing import Any

from ..compat.finder import install
from ..errors import InferstreamError, InvalidSettings, ModelLoadFailed, ModelNotFound
from ..functions.app import App
from ..imports.implementation import resolve_app
from ..settings import ModelSettings
from .base import ModelRepository, Versions
from .folder import check_name


class AppRepository(ModelRepository):
    """The models of the app that `path` (`module:name`) names, imported from `folder`.

    Each `list` imports changed code again. Raises InvalidSettings, in one line, for an app that cannot be served.
    """

    def __init__(self, path: str, folder: Path) -> None:
        self._path = path
        self._source = str(folder / f"{path.partition(':')[0].rpartition('.')[2]}.py")
        self.app = load_app(path, self._source)

    def models(self) -> Versions:
        """The settings of every model of the app as it was imported last."""
        return models_of(self.app, self._path, self._source)

    async def list(self) -> Versions:
        self.app = await asyncio.to_thread(load_app, self._path, self._source)
        return self.models()

    async def find(self, name: str) -> Versions:
        found = [settings for settings in await self.list() if settings.name == name]
        if not found:
            raise ModelNotFound(name)
        return found


def load_app(path: str, source: str | None) -> App:
    """Import an app, and check it against its lock file. Raises InvalidSettings."""
    install()
    try:
        found: Any = resolve_app(path, source)
    except InferstreamError:
        raise
    except (Exception, SystemExit) as error:
        raise InvalidSettings(f'app "{path}": {_reason(error)}') from error
    if not isinstance(found, App):
        name = type(found).__name__
        theirs = "; uninstall blazerpc, so that its names are inferstream's" if name == "BlazeApp" else ""
        raise InvalidSettings(f'app "{path}" is a {name}, not an App{theirs}')
    if not found.functions:
        raise InvalidSettings(
            f'app "{path}" has no models; mark functions with @{path.partition(":")[2]}.model'
        )
    found.lock = None
    for function in found:
        found.rpc_of(function)
    return found


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
    path, source = app.found_at()
    return models_of(app, path, source)


def models_of(app: App, path: str | None, source: str | None) -> list[ModelSettings]:
    """The settings of an app's models. Raises InvalidSettings for a name that is not safe in URLs."""
    models = app.settings(path, source)
    for settings in models:
        check_name(settings.name, f"app {app.name}")
    return models


def _reason(error: BaseException) -> str:
    """The error of an import in one line, with the place in the user's code where it happened."""
    place = ""
    if isinstance(error, SyntaxError):
        place = f"{error.filename}, line {error.lineno}: "
        return f"{place}SyntaxError: {error.msg}"
    traceback = error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if "importlib" not in code.co_filename and f"{Path(__file__).parents[1]}" not in code.co_filename:
            place = f"{code.co_filename}, line {traceback.tb_lineno}: "
        traceback = traceback.tb_next
    first = next(iter(str(error).strip().splitlines()), "")
    return f"{place}{type(error).__name__}: {first}".rstrip(": ")

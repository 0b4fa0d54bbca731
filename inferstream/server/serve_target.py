"""Resolve a folder, settings, model classes or models to settings and a repository."""

import logging
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..compat.finder import install
from ..errors import InvalidSettings
from ..functions.app import App
from ..imports.folders import hide_models, real_path, share_folders, share_target
from ..imports.implementation import resolve_class
from ..imports.trusted import TrustedRuntimes
from ..model import MLModel
from ..repository import FolderRepository, InMemoryRepository, ModelRepository
from ..repository.apps import app_model_settings
from ..repository.files import repository_of_file
from ..repository.folder import check_name
from ..repository.remote import RemoteSource, open_remote_repository
from ..repository.target import resolve_target
from ..settings import ModelSettings, Settings, load_settings
from ..settings.sections import list_plugins
from ..settings.sources import SETTINGS_FILE, unknown_fields, validate
from ..settings.trusted import enforce_trust

logger = logging.getLogger("inferstream.server")

PUBLIC = stat.S_IWOTH | stat.S_ISVTX
"""The mode bits of world-writable, sticky folders, where any user can create files."""

Model = type[MLModel] | MLModel | ModelSettings | App
Served = str | Path | Settings | Model | Iterable[Model] | Mapping[str, type[MLModel] | MLModel]
"""Models to serve.

A folder of models or a path to an app (as for `server start`), the settings of a server, an app, a model, an
iterable of apps and models, or a mapping from names to models.
"""


def resolve(
    served: Served, provided: Mapping[str, Any], repository: ModelRepository | None = None
) -> tuple[Settings, ModelRepository]:
    """Return the settings and the model repository for `served`.

    Settings in `provided` override the settings of a folder. A `repository` replaces the models of `served`.
    Raises InvalidSettings.
    """
    if isinstance(served, Settings):
        if provided:
            raise InvalidSettings(f"the settings are complete; {', '.join(provided)} must be among them")
        enforce_trust(served)
        return served, _share_code(served, repository)
    if faults := unknown_fields(Settings, provided):
        raise InvalidSettings("; ".join((*faults, list_plugins())).replace(" and ignored", ""))
    if isinstance(served, str) and RemoteSource.is_remote(served):
        settings = load_settings(served, provided)
        return settings, _share_code(settings, repository)
    if isinstance(served, str | Path):
        # Do not look for an app.py in a folder: it may be the program that calls this function.
        place, code = (Path(served), None) if Path(served).is_dir() else resolve_target(str(served))
        folder = real_path(place)
        settings = load_settings(folder, provided)
        if code is not None and repository is None:
            share_target(folder, code)
            repository = repository_of_file(code, folder)
        return settings, _share_code(settings, repository)
    settings = validate(Settings, dict(provided), "settings")
    enforce_trust(settings)
    return settings, repository or InMemoryRepository(_resolve_models(served))


def _resolve_models(served: Any) -> list[ModelSettings]:
    if isinstance(served, App):
        models = app_model_settings(served)
    elif isinstance(served, Mapping):
        models = [_build_settings(model, name) for name, model in served.items()]
    elif isinstance(served, Iterable) and not isinstance(served, type | MLModel | ModelSettings):
        models = []
        for each in served:
            models += app_model_settings(each) if isinstance(each, App) else [_build_settings(each)]
    else:
        models = [_build_settings(served)]
    seen: dict[tuple[str, str | None], ModelSettings] = {}
    for model in models:
        first = seen.setdefault((model.name, model.version), model)
        if first is not model:
            both = f"{first.implementation_} and {model.implementation_}"
            raise InvalidSettings(f'two models have the name "{model.name}": {both}')
    return models


def _build_settings(model: Any, name: str | None = None) -> ModelSettings:
    if isinstance(model, type) and issubclass(model, MLModel):
        settings = ModelSettings(implementation=model, name=name or model.__name__)
    elif isinstance(model, MLModel):
        model.settings.name = name or model.name or type(model).__name__
        settings = model.settings.model_copy()
        settings.serve_object(model)
    elif isinstance(model, ModelSettings):
        settings = model.model_copy()
        settings.name = name or model.name or model.implementation_.rpartition(".")[2]
    else:
        raise InvalidSettings(
            f"{model!r} is neither a folder, nor settings, nor a class of models, nor a model"
        )
    check_name(settings.name, settings.implementation_)
    return settings


def _share_code(settings: Settings, repository: ModelRepository | None) -> ModelRepository:
    if (runtimes := TrustedRuntimes.current()) is None:
        share_code(settings)
    else:
        logger.info("trusted runtimes: %s", ", ".join(runtimes.names) or "none, so no model can load")
        if repository is None:
            hide_models(Path(settings.model_repository_root))
    return repository or find_repository(settings)


def share_code(settings: Settings) -> None:
    """Let models import from the served folder and from the current working directory.

    A working directory where any user can create files, such as `/tmp`, is excluded.
    """
    if not RemoteSource.is_remote(settings.model_repository_root):
        share_folders([settings.model_repository_root])
    with suppress(OSError):  # the directory may have been deleted
        working = Path.cwd()
        if working.stat().st_mode & PUBLIC == PUBLIC:
            logger.info("models cannot import from %s, because every user can create files in it", working)
        else:
            share_folders([working])


def find_repository(settings: Settings) -> ModelRepository:
    """Return the repository that the settings configure. Raises InvalidSettings."""
    implementation, root = settings.model_repository_implementation, settings.model_repository_root
    if implementation is None:
        name = settings.model_repository_implementation_args.get("name")
        return (
            open_remote_repository(settings, name)
            if RemoteSource.is_remote(root)
            else FolderRepository(root, name)
        )
    try:
        install()
        cls: Any = resolve_class(implementation, str(Path(root, SETTINGS_FILE)), by_operator=True)
        if not issubclass(cls, ModelRepository):
            raise InvalidSettings("it is not a ModelRepository")
        repository: ModelRepository = cls(root=root, **settings.model_repository_implementation_args)
    except Exception as error:  # raised by a user-defined repository
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InvalidSettings(f'model_repository_implementation "{implementation}": {reason}') from error
    return repository

"""Resolves a folder, settings, classes of models or models to settings and a repository."""

import logging
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..compat.finder import install
from ..errors import InvalidSettings
from ..functions.app import App
from ..imports.folders import real_path, share_folders
from ..imports.implementation import resolve_class
from ..model import MLModel
from ..repository import FolderRepository, InMemoryRepository, ModelRepository
from ..repository.apps import served_by
from ..repository.files import repository_of_file
from ..repository.folder import check_name
from ..repository.remote import RemoteSource, remote_repository
from ..repository.target import targeted
from ..settings import ModelSettings, Settings, load_settings
from ..settings.sources import SETTINGS_FILE, unknown_fields, validated

logger = logging.getLogger("inferstream.server")

PUBLIC = stat.S_IWOTH | stat.S_ISVTX
"""The mode of folders in which every user may create files."""

Model = type[MLModel] | MLModel | ModelSettings | App
Served = str | Path | Settings | Model | Iterable[Model] | Mapping[str, type[MLModel] | MLModel]
"""A folder of models, or an app by its place, as of `server start`; the settings of a server; an app; one model or
several, which a mapping names."""


def resolve(
    served: Served, provided: Mapping[str, Any], repository: ModelRepository | None = None
) -> tuple[Settings, ModelRepository]:
    """The settings and the models of a server of `served`. Settings in `provided` override those of a folder.

    A `repository` replaces the models of `served`. Raises InvalidSettings.
    """
    if isinstance(served, Settings):
        if provided:
            raise InvalidSettings(f"the settings are complete; {', '.join(provided)} must be among them")
        return served, _shared(served, repository)
    if faults := unknown_fields(Settings, provided):
        raise InvalidSettings("; ".join(faults).replace(" and ignored", ""))
    if isinstance(served, str) and RemoteSource.is_remote(served):
        settings = load_settings(served, provided)
        return settings, _shared(settings, repository)
    if isinstance(served, str | Path):
        # A folder is one of models, whatever it holds: the program that calls this may be the app.py in it.
        place, code = (Path(served), None) if Path(served).is_dir() else targeted(str(served))
        folder = real_path(place)
        settings = load_settings(folder, provided)
        if code is not None and repository is None:
            share_folders([folder])
            repository = repository_of_file(code, folder)
        return settings, _shared(settings, repository)
    settings = validated(Settings, dict(provided), "settings")
    return settings, repository or InMemoryRepository(_models(served))


def _models(served: Any) -> list[ModelSettings]:
    if isinstance(served, App):
        models = served_by(served)
    elif isinstance(served, Mapping):
        models = [_settings_of(model, name) for name, model in served.items()]
    elif isinstance(served, Iterable) and not isinstance(served, type | MLModel | ModelSettings):
        models = []
        for each in served:
            models += served_by(each) if isinstance(each, App) else [_settings_of(each)]
    else:
        models = [_settings_of(served)]
    seen: dict[tuple[str, str | None], ModelSettings] = {}
    for model in models:
        first = seen.setdefault((model.name, model.version), model)
        if first is not model:
            both = f"{first.implementation_} and {model.implementation_}"
            raise InvalidSettings(f'two models have the name "{model.name}": {both}')
    return models


def _settings_of(model: Any, name: str | None = None) -> ModelSettings:
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


def _shared(settings: Settings, repository: ModelRepository | None) -> ModelRepository:
    share_code(settings)
    return repository or repository_of(settings)


def share_code(settings: Settings) -> None:
    """Let models import from the served folder and from the present working folder.

    A working folder in which every user may create files, such as `/tmp`, is excluded.
    """
    if not RemoteSource.is_remote(settings.model_repository_root):
        share_folders([settings.model_repository_root])
    with suppress(OSError):  # it may have been deleted
        working = Path.cwd()
        if working.stat().st_mode & PUBLIC == PUBLIC:
            logger.info("models cannot import from %s, where every user may create files", working)
        else:
            share_folders([working])


def repository_of(settings: Settings) -> ModelRepository:
    """The repository that the settings name. Raises InvalidSettings."""
    implementation, root = settings.model_repository_implementation, settings.model_repository_root
    if implementation is None:
        name = settings.model_repository_implementation_args.get("name")
        return (
            remote_repository(settings, name)
            if RemoteSource.is_remote(root)
            else FolderRepository(root, name)
        )
    try:
        install()
        cls: Any = resolve_class(implementation, str(Path(root, SETTINGS_FILE)))
        if not issubclass(cls, ModelRepository):
            raise InvalidSettings("it is not a ModelRepository")
        repository: ModelRepository = cls(root=root, **settings.model_repository_implementation_args)
    except Exception as error:  # of a repository that a user has written
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InvalidSettings(f'model_repository_implementation "{implementation}": {reason}') from error
    return repository

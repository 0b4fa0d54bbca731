"""Resolution of model URIs."""

import os
from collections.abc import Sequence
from urllib.parse import urlparse

from ..errors import InvalidModelURI
from ..settings import ModelSettings


async def get_model_uri(settings: ModelSettings, wellknown_filenames: Sequence[str] = ()) -> str:
    """Return `find_artefact(...)`, for compatibility with the MLServer function of this name."""
    return find_artefact(settings, wellknown_filenames)


def find_artefact(settings: ModelSettings, wellknown_filenames: Sequence[str] = ()) -> str:
    """Return the artefact at `parameters.uri`: a file, the first well-known file in a folder, or the folder.

    A URI with a scheme other than `file` is returned unchanged. Raises InvalidModelURI.
    """
    uri = settings.parameters.uri if settings.parameters is not None else None
    if not uri:
        raise InvalidModelURI(settings.name, why="parameters.uri of the model is missing")
    parsed = urlparse(uri)
    if parsed.scheme and parsed.scheme != "file":
        return uri
    path = to_absolute_path(settings, parsed.path if parsed.scheme else uri)
    if os.path.isfile(path):
        return path
    if not os.path.isdir(path):
        beside = "" if settings.source is None else f", relative to {os.path.basename(settings.source)}"
        raise InvalidModelURI(settings.name, uri, f"there is no such file or folder{beside}")
    return next(filter(os.path.isfile, (os.path.join(path, name) for name in wellknown_filenames)), path)


def to_absolute_path(model_settings: ModelSettings, uri: str) -> str:
    """Resolve a path relative to the settings file, if there is one."""
    source = model_settings.source
    return os.path.normpath(os.path.join(os.path.dirname(source), uri)) if source is not None else uri

"""Where a model's artefacts are."""

import os
from collections.abc import Sequence
from urllib.parse import urlparse

from ..errors import InvalidModelURI
from ..settings.model import ModelSettings


async def get_model_uri(settings: ModelSettings, wellknown_filenames: Sequence[str] = ()) -> str:
    """The artefact that `parameters.uri` names: a file, or in a folder the first well-known file, or the folder.

    A URI of another scheme than `file` is returned as it is. Raises InvalidModelURI.
    """
    uri = settings.parameters.uri if settings.parameters is not None else None
    if not uri:
        raise InvalidModelURI(settings.name)
    parsed = urlparse(uri)
    if parsed.scheme and parsed.scheme != "file":
        return uri
    path = to_absolute_path(settings, parsed.path if parsed.scheme else uri)
    if os.path.isfile(path):
        return path
    if not os.path.isdir(path):
        raise InvalidModelURI(settings.name, uri)
    return next(filter(os.path.isfile, (os.path.join(path, name) for name in wellknown_filenames)), path)


def to_absolute_path(model_settings: ModelSettings, uri: str) -> str:
    """A relative path is relative to the settings file; where there is none, the path stays as it is."""
    source = model_settings.source
    return os.path.normpath(os.path.join(os.path.dirname(source), uri)) if source is not None else uri

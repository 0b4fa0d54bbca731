"""Where a model's artefacts are."""

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlparse

from ..errors import InvalidModelURI
from .model import ModelSettings


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
    path = Path(to_absolute_path(settings, parsed.path if parsed.scheme else uri))
    if path.is_file():
        return str(path)
    if not path.is_dir():
        raise InvalidModelURI(settings.name, uri)
    return str(next((path / name for name in wellknown_filenames if (path / name).is_file()), path))


def to_absolute_path(model_settings: ModelSettings, uri: str) -> str:
    """A relative path is relative to the settings file, or to the working folder where there is none."""
    base = Path(model_settings.source).parent if model_settings.source else Path.cwd()
    return str((base / uri).resolve())

"""Settings sections of plug-ins, and the sources of settings."""

from typing import TYPE_CHECKING

from ._names import export

if TYPE_CHECKING:
    from ..settings import MLSERVER_MODEL_PREFIX as MLSERVER_MODEL_PREFIX
    from ..settings import CORSSettings as CORSSettings
    from ..settings import load_settings as load_settings
    from ..settings.environment import EnvironmentModel as EnvironmentModel
    from ..settings.environment import expand_path as expand_path
    from ..settings.files import read_file as read_file
    from ..settings.sections import Section as Section
    from ..settings.sources import read_json as read_json
    from ..settings.start import ServerStart as ServerStart

__all__ = [
    "CORSSettings",
    "EnvironmentModel",
    "MLSERVER_MODEL_PREFIX",
    "Section",
    "ServerStart",
    "expand_path",
    "load_settings",
    "read_file",
    "read_json",
]

_NAMES = {
    "settings": "CORSSettings MLSERVER_MODEL_PREFIX load_settings",
    "settings.environment": "EnvironmentModel expand_path",
    "settings.files": "read_file",
    "settings.sections": "Section",
    "settings.sources": "read_json",
    "settings.start": "ServerStart",
}

__getattr__ = export(__name__, _NAMES)

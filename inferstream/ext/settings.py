"""Settings of a plug-in, and where settings come from."""

from typing import TYPE_CHECKING

from ._names import export

if TYPE_CHECKING:
    from ..settings import load_settings as load_settings
    from ..settings.environment import EnvironmentModel as EnvironmentModel
    from ..settings.environment import expanded as expand_path
    from ..settings.sections import Section as Section
    from ..settings.tolerance import Tolerance as Tolerance

__all__ = [
    "EnvironmentModel",
    "Section",
    "Tolerance",
    "expand_path",
    "load_settings",
]

_NAMES = {
    "settings": "load_settings",
    "settings.environment": "EnvironmentModel expanded=expand_path",
    "settings.sections": "Section",
    "settings.tolerance": "Tolerance",
}

__getattr__ = export(__name__, _NAMES)

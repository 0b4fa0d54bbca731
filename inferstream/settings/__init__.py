"""Settings of the server and of each model."""

from typing import TYPE_CHECKING

from ..ext._names import export
from .cors import CORSSettings
from .environment import ENV_FILE as ENV_FILE_SETTINGS
from .environment import MLSERVER_MODEL_PREFIX, MLSERVER_PREFIX, MODEL_PREFIX, PREFIX
from .model import SLOWEST, ModelParameters

if TYPE_CHECKING:
    from .composed import ModelSettings, Settings
    from .sources import MODEL_SETTINGS_FILE, SETTINGS_FILE, load_model_settings, load_settings

__all__ = [
    "CORSSettings",
    "ENV_FILE_SETTINGS",
    "MLSERVER_MODEL_PREFIX",
    "MLSERVER_PREFIX",
    "MODEL_PREFIX",
    "MODEL_SETTINGS_FILE",
    "ModelParameters",
    "ModelSettings",
    "PREFIX",
    "SLOWEST",
    "SETTINGS_FILE",
    "Settings",
    "load_model_settings",
    "load_settings",
]

# Late: the sections of plug-ins import this package, and may be the first to do so.
__getattr__ = export(
    __name__,
    {
        "settings.composed": "ModelSettings Settings",
        "settings.sources": "MODEL_SETTINGS_FILE SETTINGS_FILE load_model_settings load_settings",
    },
)

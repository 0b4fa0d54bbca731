"""Settings of the server and of each model."""

from .cors import CORSSettings
from .environment import ENV_FILE as ENV_FILE_SETTINGS
from .environment import MLSERVER_MODEL_PREFIX, MLSERVER_PREFIX, MODEL_PREFIX, PREFIX
from .model import SLOWEST, ModelParameters, ModelSettings
from .server import Settings
from .sources import MODEL_SETTINGS_FILE, SETTINGS_FILE, load_model_settings, load_settings
from .traffic import Shadow, Split, Tolerance

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
    "Shadow",
    "Split",
    "Tolerance",
    "load_model_settings",
    "load_settings",
]

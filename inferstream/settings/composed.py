"""The settings that programs use. Their types are in composed.pyi, which `make settings` writes."""

from ..extensions.entries import MODEL_SETTINGS, SETTINGS
from .model import CoreModelSettings
from .sections import compose
from .server import CoreSettings

Settings = compose("Settings", CoreSettings, SETTINGS)
ModelSettings = compose("ModelSettings", CoreModelSettings, MODEL_SETTINGS)

"""Settings of the server and of models."""

from pathlib import Path

from inferstream.settings import (
    MLSERVER_MODEL_PREFIX,
    MLSERVER_PREFIX,
    CORSSettings,
    ModelParameters,
    ModelSettings,
    Settings,
)
from inferstream.settings.environment import ENV_FILE, EnvironmentModel

BaseSettings = EnvironmentModel
DEFAULT_ENVIRONMENTS_DIR = str(Path.cwd() / ".envs")
DEFAULT_METRICS_DIR = str(Path.cwd() / ".metrics")
DEFAULT_PARALLEL_WORKERS = 1
ENV_FILE_SETTINGS = ENV_FILE
ENV_PREFIX_MODEL_SETTINGS = MLSERVER_MODEL_PREFIX
ENV_PREFIX_SETTINGS = MLSERVER_PREFIX

__all__ = [
    "DEFAULT_ENVIRONMENTS_DIR",
    "DEFAULT_METRICS_DIR",
    "DEFAULT_PARALLEL_WORKERS",
    "ENV_FILE_SETTINGS",
    "ENV_PREFIX_MODEL_SETTINGS",
    "ENV_PREFIX_SETTINGS",
    "BaseSettings",
    "CORSSettings",
    "ModelParameters",
    "ModelSettings",
    "Settings",
]

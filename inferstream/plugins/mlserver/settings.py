"""Constants and functions of `mlserver.settings` and of related modules: files, classes and environment
hashes."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from pathlib import Path

from inferstream import MLModel, ModelSettings, Settings
from inferstream.ext.runtimes import FolderRepository

DEFAULT_ENVIRONMENTS_DIR = str(Path.cwd() / ".envs")
DEFAULT_METRICS_DIR = str(Path.cwd() / ".metrics")
DEFAULT_PARALLEL_WORKERS = 1
SETTINGS_FILE = "settings.json"
MODEL_SETTINGS_FILE = "model-settings.json"
"""The file names of model settings."""
ENV_FILE = ".env"
"""The file in the working folder with variables that are missing from the environment."""
ENV_PREFIX_SETTINGS = "MLSERVER_"
"""Prefix of the server's environment variables."""
MLSERVER_MODEL_NAME_HEADER = "mlserver-model"
MLSERVER_MODEL_VERSION_HEADER = "mlserver-version"

ModelInitialiser = Callable[[ModelSettings], MLModel]
ModelRegistryHook = Callable[[MLModel], Awaitable[MLModel]]
ModelReloadHook = Callable[[MLModel, MLModel], Awaitable[MLModel]]


def load_model_settings(model_settings_path: str) -> ModelSettings:
    """Load the settings in a file. Name and URI default to its folder. Raises InvalidSettings."""
    path = Path(model_settings_path).absolute()
    return FolderRepository(path.resolve().parent).read(path)


def model_initialiser(model_settings: ModelSettings) -> MLModel:
    """Create an instance of the class in the settings, without loading the model."""
    model: MLModel = model_settings.implementation(model_settings)
    return model


async def compute_hash_of_file(tarball_path: str) -> str:
    """Return the SHA-256 of a file as hexadecimal digits."""

    def digest() -> str:
        with open(tarball_path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    return await asyncio.to_thread(digest)


async def compute_hash_of_string(string: str) -> str:
    """Return the SHA-256 of a string as hexadecimal digits."""
    return hashlib.sha256(string.encode()).hexdigest()


def configure_inference_pool(settings: Settings) -> None:
    """Do nothing: the server prepares its worker processes itself."""

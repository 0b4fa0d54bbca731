"""Python environments of individual models."""

import asyncio
import hashlib
import lzma
import os
import shutil
import tempfile
import zlib
from pathlib import Path

from ..errors import ModelLoadFailed
from ..settings import ModelSettings

MAX_FILES = 1_000_000
"""The maximum number of members of a tarball. Environments with torch have about 100,000."""


async def find_environment(settings: ModelSettings, folder: Path) -> Path | None:
    """Return the folder of the model's own Python environment, or None if it has none.

    A tarball is unpacked under `folder`. Paths are relative to the settings file. Raises ModelLoadFailed if
    the environment is missing.
    """
    parameters = settings.parameters
    if parameters is None or not (parameters.environment_path or parameters.environment_tarball):
        return None
    beside = Path(settings.source).parent if settings.source else Path.cwd()
    if parameters.environment_path:
        environment = beside / parameters.environment_path
    else:
        tarball = beside / str(parameters.environment_tarball)
        if not tarball.is_file():
            raise ModelLoadFailed(f"Model {settings.name} did not load: {tarball.name} is not there.")
        environment = await asyncio.to_thread(_unpack, settings.name, tarball, folder)
    if not find_python(environment).exists():
        raise ModelLoadFailed(
            f"Model {settings.name} did not load: its environment {environment.name} has no bin/python."
        )
    return environment


def find_python(environment: Path) -> Path:
    return environment / "bin" / "python"


def _unpack(model: str, tarball: Path, folder: Path) -> Path:
    """Unpack a tarball once, into a folder named after its SHA-256 hash, and return the folder."""
    import tarfile  # imported lazily: few models have an environment

    from .archives import Unpacker, UnsafeArchive

    with tarball.open("rb") as file:
        name = hashlib.file_digest(file, "sha256").hexdigest()
    environment = folder / name
    if environment.is_dir():
        return environment
    folder.mkdir(parents=True, exist_ok=True)
    unpacking = Path(tempfile.mkdtemp(prefix="unpacking-", dir=folder))
    try:
        Unpacker(MAX_FILES).unpack_tar(tarball, unpacking)
        os.replace(unpacking, environment)
    except UnsafeArchive as error:
        raise ModelLoadFailed(
            f"Model {model} did not load: {tarball.name} cannot be unpacked: {error}."
        ) from None
    except (OSError, tarfile.TarError, EOFError, zlib.error, lzma.LZMAError) as error:
        if environment.is_dir():
            return environment  # another process has unpacked it
        raise ModelLoadFailed(f"Model {model} did not load: {tarball.name} cannot be unpacked.") from error
    finally:
        shutil.rmtree(unpacking, ignore_errors=True)
    return environment

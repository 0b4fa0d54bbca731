"""Python environments of models."""

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

MOST_FILES = 1_000_000
"""Members of a tarball. Environments with torch have a hundred thousand."""


async def environment_of(settings: ModelSettings, folder: Path) -> Path | None:
    """The folder of the model's own Python environment, unpacked under `folder`; None for the server's.

    Relative paths start at the settings file. Raises ModelLoadFailed for a missing environment.
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
        environment = await asyncio.to_thread(_unpacked, settings.name, tarball, folder)
    if not python_in(environment).exists():
        raise ModelLoadFailed(
            f"Model {settings.name} did not load: its environment {environment.name} has no bin/python."
        )
    return environment


def python_in(environment: Path) -> Path:
    return environment / "bin" / "python"


def _unpacked(model: str, tarball: Path, folder: Path) -> Path:
    """The folder of the unpacked tarball. Its name is a hash of the tarball, so it is unpacked once."""
    import tarfile  # late: few models have an environment

    from .archives import Unpacker, UnsafeArchive

    with tarball.open("rb") as file:
        name = hashlib.file_digest(file, "sha256").hexdigest()
    environment = folder / name
    if environment.is_dir():
        return environment
    folder.mkdir(parents=True, exist_ok=True)
    unpacking = Path(tempfile.mkdtemp(prefix="unpacking-", dir=folder))
    try:
        Unpacker(MOST_FILES).unpack_tar(tarball, unpacking)
        os.replace(unpacking, environment)
    except UnsafeArchive as error:
        raise ModelLoadFailed(
            f"Model {model} did not load: {tarball.name} cannot be unpacked: {error}."
        ) from None
    except (OSError, tarfile.TarError, EOFError, zlib.error, lzma.LZMAError) as error:
        if environment.is_dir():
            return environment  # another server has unpacked it
        raise ModelLoadFailed(f"Model {model} did not load: {tarball.name} cannot be unpacked.") from error
    finally:
        shutil.rmtree(unpacking, ignore_errors=True)
    return environment

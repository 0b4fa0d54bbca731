"""Python environments of models' own."""

import asyncio
import hashlib

from inferstream.compat.replaced import Replaced


class Environment(Replaced):
    """An environment that worker processes run in."""

    instead = "environment_tarball or environment_path in a model's settings names an environment"


async def compute_hash_of_file(tarball_path: str) -> str:
    """The SHA-256 of a file's content, as hexadecimal digits."""

    def digest() -> str:
        with open(tarball_path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    return await asyncio.to_thread(digest)


async def compute_hash_of_string(string: str) -> str:
    """The SHA-256 of a text, as hexadecimal digits."""
    return hashlib.sha256(string.encode()).hexdigest()


__all__ = ["Environment", "compute_hash_of_file", "compute_hash_of_string"]

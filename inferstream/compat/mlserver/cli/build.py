"""Images of model folders."""

from pathlib import Path

from inferstream.cli.image import IGNORED, dockerfile
from inferstream.compat.machinery import stand_ins


def generate_dockerfile(base_image: str = "") -> str:
    """A Dockerfile that serves the working folder."""
    return dockerfile(Path())


def write_dockerfile(folder: str, dockerfile: str, include_dockerignore: bool = True) -> str:
    """Write a Dockerfile into `folder`; returns its path."""
    path = Path(folder, "Dockerfile")
    path.write_text(dockerfile)
    if include_dockerignore:
        path.with_name("Dockerfile.dockerignore").write_text(IGNORED)
    return str(path)


__getattr__ = stand_ins(__name__)

__all__ = ["generate_dockerfile", "write_dockerfile"]

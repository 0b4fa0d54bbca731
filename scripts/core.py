"""The package without its plug-ins: `python -m scripts.core FOLDER` writes it as a project that can be installed."""

import re
import shutil
import sys
from pathlib import Path

from scripts.house.boundary import Boundary
from scripts.house.modules import PACKAGE

ROOT = Path(__file__).parents[1]

BESIDE = ("plugins/", "page/")
"""Folders of plug-ins that have other files than modules."""

EXTENSIONS = re.compile(r'\[project\.entry-points\."inferstream\.extensions"\]\n(?:[^\[\n].*\n|\n)*')


def copy_core(folder: Path) -> None:
    """Copy every file of the package that belongs to no plug-in into `folder`."""
    modules = {module.file for module in Boundary(ROOT).plugins}
    for file in sorted((ROOT / PACKAGE).rglob("*")):
        name = file.relative_to(ROOT / PACKAGE).as_posix()
        if (
            file.is_file()
            and "__pycache__" not in file.parts
            and name not in modules
            and not name.startswith(BESIDE)
        ):
            copy = folder / PACKAGE / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)


def write_project(folder: Path) -> None:
    """Write the core as a project whose metadata names no plug-in."""
    copy_core(folder)
    for name in ("README.md", "LICENSE"):
        shutil.copyfile(ROOT / name, folder / name)
    (folder / "pyproject.toml").write_text(EXTENSIONS.sub("", (ROOT / "pyproject.toml").read_text()))


def write_installed(folder: Path) -> None:
    """Write the core as it is installed: a folder for PYTHONPATH, which hides an installation with plug-ins."""
    copy_core(folder)
    metadata = folder / f"{PACKAGE}-0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: 0\n")


if __name__ == "__main__":
    write_project(Path(sys.argv[1]))

"""The core and each plug-in as distributions of their own: `python -m scripts.distributions FOLDER [PLUG-IN...]`.

Without a plug-in, the command writes the project of the core.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from inferstream.extensions.discovery import extensions
from scripts.house.modules import PACKAGE

ROOT = Path(__file__).parents[1]

PLUGINS = f"{PACKAGE}/plugins"

EXTENSIONS = re.compile(r'\[project\.entry-points\."inferstream\.extensions"\]\n(?:[^\[\n].*\n|\n)*')

PROJECT = """\
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "{package}-{name}"
version = "0.1.0"
dependencies = {dependencies}

[project.entry-points."inferstream.extensions"]
{name} = "inferstream.plugins.{name}:extension"

[tool.setuptools.packages.find]
include = ["inferstream.plugins.{name}*"]

[tool.setuptools.package-data]
"*" = ["*"]
"""


def with_required(*names: str) -> list[str]:
    """Return plug-ins and those that they require, directly or not, by name."""
    known, found, left = extensions(ours=True), set(), [*names]
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += known[name].requires
    return sorted(found)


def copy_files(folder: Path, files: Iterable[Path]) -> None:
    """Copy files of the repository into `folder`, under the paths that they have here."""
    for file in files:
        if file.is_file() and "__pycache__" not in file.parts:
            copy = folder / file.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)


def copy_core(folder: Path) -> None:
    """Copy every file of the package that belongs to no plug-in into `folder`."""
    files = (ROOT / PACKAGE).rglob("*")
    copy_files(folder, (file for file in files if not file.is_relative_to(ROOT / PLUGINS)))


def write_core(folder: Path) -> None:
    """Write the core as a project whose metadata names no plug-in."""
    copy_core(folder)
    copy_files(folder, [ROOT / "README.md", ROOT / "LICENSE"])
    (folder / "pyproject.toml").write_text(EXTENSIONS.sub("", (ROOT / "pyproject.toml").read_text()))


def write_plugin(folder: Path, name: str) -> None:
    """Write a plug-in as a project that depends on the core and on the plug-ins that it requires."""
    copy_files(folder, (ROOT / PLUGINS / name).rglob("*"))
    others = extensions(ours=True)[name].requires
    dependencies = [PACKAGE, *(f"{PACKAGE}-{other}" for other in others)]
    (folder / "pyproject.toml").write_text(
        PROJECT.format(package=PACKAGE, name=name, dependencies=dependencies)
    )


def write_installed(folder: Path) -> None:
    """Write the core as it is installed: a folder for PYTHONPATH, which hides an installation with plug-ins."""
    copy_core(folder)
    metadata = folder / f"{PACKAGE}-0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: 0\n")


def build_wheels(folder: Path, names: Iterable[str]) -> dict[str, Path]:
    """Build the wheels of the core, which has the name "", and of plug-ins in `folder`, without an index."""
    projects = {name: folder / "projects" / (name or "core") for name in ("", *names)}
    for name, project in projects.items():
        project.mkdir(parents=True)
        write_plugin(project, name) if name else write_core(project)
    _pip("wheel", "--no-build-isolation", "--wheel-dir", folder, *projects.values())
    return {name: next(folder.glob(f"{f'{PACKAGE}_{name}' if name else PACKAGE}-*.whl")) for name in projects}


def install_wheels(wheels: Iterable[Path], site: Path) -> None:
    """Install wheels into `site`, a folder for PYTHONPATH."""
    _pip("install", "--no-index", "--no-compile", "--target", site, *wheels)


def _pip(command: str, *arguments: str | Path) -> None:
    pip = [sys.executable, "-m", "pip", command, "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, *arguments], check=True)


if __name__ == "__main__":
    target, *plugins = sys.argv[1:]
    for plugin in plugins:
        write_plugin(Path(target) / plugin, plugin)
    if not plugins:
        write_core(Path(target))

"""The packages that an image needs: extras of the server, and plug-ins of other packages."""

import re
from collections.abc import Iterator, Mapping
from importlib.metadata import distributions, metadata
from pathlib import Path
from typing import Any

from inferstream.ext.settings import read_json

from .secrets import SETTINGS_FILE

DISTRIBUTION = "inferstream"

Models = Mapping[str, Mapping[str, Any]]
"""The model settings in a folder, by file path.

An artefact without settings has an empty path.
"""

CONDA_FILES = ("environment.yml", "environment.yaml", "conda.yml", "conda.yaml")
REQUIREMENTS = "requirements.txt"

ALWAYS = ("tracing",)
"""Extras of every image. Orchestrators set tracing variables for all servers."""

EXTRAS = {"kafka_enabled": "kafka", "state_key_file": "state"}
"""Extras by the server setting that needs them. The extra of a runtime is named after its module."""

SCHEMES = {"hf": "hub", "s3": "objects", "gs": "objects", "az": "objects"}
"""Extras by the scheme of a model URI."""


def find_extras(folder: Path, models: Models) -> list[str]:
    """Return the extras that the models in `folder` and its settings need."""
    file = folder / SETTINGS_FILE
    server = read_json(file) if file.is_file() else {}
    extras = {*ALWAYS, *(extra for field, extra in EXTRAS.items() if server.get(field))}
    for settings in models.values():
        package, *names = re.split(r"[.:]", str(settings.get("implementation")))
        if package == DISTRIBUTION:
            extras.update(names)
        if settings.get("chat_template"):
            extras.add("chat")
        parameters = settings.get("parameters")
        uri = parameters.get("uri") if isinstance(parameters, dict) else None
        extras.add(SCHEMES.get(str(uri).partition("://")[0], ""))
    return sorted(extras.intersection(metadata(DISTRIBUTION).get_all("Provides-Extra") or ()))


def find_missing_plugins(folder: Path) -> list[str]:
    """Return the plug-in packages that are installed here and that no file of `folder` installs."""
    files = [folder / name for name in (REQUIREMENTS, *CONDA_FILES)]
    listed = "\n".join(file.read_text(errors="replace") for file in files if file.is_file())
    return sorted(name for name in _installed_plugins() if not _mentions(listed, name))


def _installed_plugins() -> Iterator[str]:
    for package in distributions():
        groups = [entry.group for entry in package.entry_points]
        name = package.metadata["Name"]
        if name != DISTRIBUTION and any(group.startswith(f"{DISTRIBUTION}.") for group in groups):
            yield name


def _mentions(requirements: str, name: str) -> bool:
    """Whether a line installs the package, by its name, a path or a URL."""
    pattern = "[-_.]+".join(map(re.escape, re.split(r"[-_.]+", name)))
    return re.search(rf"^[^#\n]*(?<![\w.-]){pattern}(?!\w|-[a-z])", requirements, re.M | re.I) is not None

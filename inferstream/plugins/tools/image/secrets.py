"""Detection of private keys and API keys in a model folder, which must not be copied into an image."""

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from inferstream.errors import InvalidSettings
from inferstream.ext.settings import read_json

SETTINGS_FILE = "settings.json"

NAMED = ("keys_file", "state_key_file", "ssl_keyfile")
"""Settings, at any level, that contain the path of a file with secrets."""

STORES = (".p12", ".pfx", ".jks")
"""Suffixes of binary key stores."""

SOURCES = (".py", ".ipynb", ".md")
"""Suffixes of files that may contain a key as an example."""

PRIVATE_KEY = re.compile(rb"^-----BEGIN [A-Z ]*PRIVATE KEY-----", re.MULTILINE)
MAX_KEY_BYTES = 2**16

LEFT_ALONE = (".git", ".venv", ".envs", "__pycache__")


def find_secrets(folder: Path) -> list[str]:
    """Return the paths of secrets in `folder`, relative to it. Raises InvalidSettings for invalid JSON."""
    settings = folder / SETTINGS_FILE
    paths = {*_find_paths(folder, read_json(settings) if settings.is_file() else {})}
    for path in folder.rglob("*"):
        relative = path.relative_to(folder)
        if not set(LEFT_ALONE).intersection(relative.parts) and path.is_file() and _is_secret(path):
            paths.add(relative.as_posix())
    return sorted(paths)


def find_uncovered_secrets(secrets: list[str], ignored: str) -> list[str]:
    """Return the secrets that a .dockerignore does not exclude.

    The last line that matches a file takes precedence.
    """
    covered: set[str] = set()
    for line in map(str.strip, ignored.splitlines()):
        negated = line.startswith("!")
        pattern = line.removeprefix("!").strip("/").removeprefix("./")
        for secret in secrets if pattern and not line.startswith("#") else ():
            parents = [str(parent) for parent in Path(secret).parents if parent != Path()]
            if any(_matches(path, pattern) for path in (secret, *parents)):
                (covered.discard if negated else covered.add)(secret)
    return [secret for secret in secrets if secret not in covered]


def generate_ignore_lines(secrets: list[str]) -> str:
    """Generate .dockerignore lines that exclude the secrets.

    Raises InvalidSettings for file names that a .dockerignore cannot express.
    """
    for secret in secrets:
        if not secret.isprintable() or secret != secret.strip():
            raise InvalidSettings(
                f"{secret!r} holds a key, and a .dockerignore cannot name it; rename the file"
            )
    return "".join(re.sub(r"^([!#])|([*?\[\\])", r"\\\1\2", secret) + "\n" for secret in secrets)


def _matches(path: str, pattern: str) -> bool:
    """Whether a pattern matches a path.

    `*` does not match slashes, and a leading `**/` matches any number of folders.
    """
    if pattern.startswith("**/"):
        parts = Path(path).parts
        return any(_matches("/".join(parts[start:]), pattern[3:]) for start in range(len(parts)))
    return path.count("/") == pattern.count("/") and fnmatch(path, pattern)


def _find_paths(folder: Path, values: Mapping[str, Any]) -> Iterator[str]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _find_paths(folder, value)
        elif name in NAMED and isinstance(value, str):
            path = (folder / value).resolve()
            if path.is_file() and path.is_relative_to(folder.resolve()):
                yield path.relative_to(folder.resolve()).as_posix()


def _is_secret(path: Path) -> bool:
    if path.suffix in STORES:
        return True
    if path.suffix in SOURCES or path.stat().st_size > MAX_KEY_BYTES:
        return False
    return PRIVATE_KEY.search(path.read_bytes()) is not None

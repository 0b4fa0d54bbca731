"""Files of a model folder that stay outside its image: private keys, and keys of clients."""

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from inferstream.ext.settings import read_json

from ...errors import InvalidSettings

SETTINGS_FILE = "settings.json"

NAMED = ("keys_file", "state_key_file", "ssl_keyfile")
"""Settings, at any level, that name such a file."""

STORES = (".p12", ".pfx", ".jks")
"""Suffixes of stores of keys, which are not text."""

SOURCES = (".py", ".ipynb", ".md")
"""Suffixes of files that may quote a key."""

PRIVATE_KEY = re.compile(rb"^-----BEGIN [A-Z ]*PRIVATE KEY-----", re.MULTILINE)
MAX_KEY_BYTES = 2**16

LEFT_ALONE = (".git", ".venv", ".envs", "__pycache__")


def secret_files(folder: Path) -> list[str]:
    """Paths of secrets below `folder`, relative to it. Raises InvalidSettings for invalid JSON."""
    settings = folder / SETTINGS_FILE
    paths = {*_named(folder, read_json(settings) if settings.is_file() else {})}
    for path in folder.rglob("*"):
        relative = path.relative_to(folder)
        if not set(LEFT_ALONE).intersection(relative.parts) and path.is_file() and _is_secret(path):
            paths.add(relative.as_posix())
    return sorted(paths)


def uncovered(secrets: list[str], ignored: str) -> list[str]:
    """The secrets that a .dockerignore does not keep out. Its last line that matches a file decides."""
    covered: set[str] = set()
    for line in map(str.strip, ignored.splitlines()):
        negated = line.startswith("!")
        pattern = line.removeprefix("!").strip("/").removeprefix("./")
        for secret in secrets if pattern and not line.startswith("#") else ():
            parents = [str(parent) for parent in Path(secret).parents if parent != Path()]
            if any(_matches(path, pattern) for path in (secret, *parents)):
                (covered.discard if negated else covered.add)(secret)
    return [secret for secret in secrets if secret not in covered]


def ignore_lines(secrets: list[str]) -> str:
    """Lines of a .dockerignore that keep the secrets out. Raises InvalidSettings for a name that needs two lines."""
    for secret in secrets:
        if not secret.isprintable() or secret != secret.strip():
            raise InvalidSettings(
                f"{secret!r} holds a key, and a .dockerignore cannot name it; rename the file"
            )
    return "".join(re.sub(r"^([!#])|([*?\[\\])", r"\\\1\2", secret) + "\n" for secret in secrets)


def _matches(path: str, pattern: str) -> bool:
    """Whether a pattern matches a path: `*` stays within a folder, `**/` is any number of folders."""
    if pattern.startswith("**/"):
        parts = Path(path).parts
        return any(_matches("/".join(parts[start:]), pattern[3:]) for start in range(len(parts)))
    return path.count("/") == pattern.count("/") and fnmatch(path, pattern)


def _named(folder: Path, values: Mapping[str, Any]) -> Iterator[str]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _named(folder, value)
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

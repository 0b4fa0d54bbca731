"""The operator's list of trusted runtimes.

While a list is in force, models can use only the classes that it names, and no code from their folders. A
list stays in force until the process exits.
"""

import json
import os
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ..compat.moved_modules import current_path
from ..errors import HINT, InvalidSettings
from ..extensions.discovery import plugins
from ..extensions.entries import RUNTIMES

VARIABLES = ("INFERSTREAM_TRUSTED_RUNTIMES_FILE", "MLSERVER_TRUSTED_RUNTIMES_FILE")
PLACES = ("/etc/inferstream/trusted-runtimes.json", "/etc/mlserver/trusted-runtimes.json")
"""The files that are in force wherever they exist. Images contain them."""

IMPORT_PATH = re.compile(r"([A-Za-z][A-Za-z0-9_-]{0,254}\.)+[A-Z][A-Za-z0-9_]*")

_enforced: "TrustedRuntimes | None" = None


class TrustedRuntimes(NamedTuple):
    """Classes that models can use, by the import paths in the file and by those of our runtimes."""

    names: tuple[str, ...]
    paths: frozenset[str]

    @staticmethod
    def current() -> "TrustedRuntimes | None":
        """Return the list in force, or None without one. Raises InvalidSettings for an unusable file."""
        return _find() if _enforced is None else _enforced

    @classmethod
    def names_in_force(cls) -> list[str] | None:
        """Return the names for another process, or None without a list."""
        return None if (runtimes := cls.current()) is None else [*runtimes.names]

    @classmethod
    def of(cls, names: Iterable[object], file: str = "trusted runtimes") -> "TrustedRuntimes":
        """Build a list. Raises InvalidSettings for a name that is not an import path."""
        paths = {}
        for name in names:
            paths[str(name)] = path = canonical_path(name) if isinstance(name, str) else ""
            if not IMPORT_PATH.fullmatch(path):
                raise InvalidSettings(f"{file}: {name!r} is not the import path of a class, module.Class")
        return cls(tuple(sorted(paths)), frozenset(paths.values()))

    @classmethod
    def read(cls, path: str) -> "TrustedRuntimes":
        """Read a JSON list of import paths. Raises InvalidSettings."""
        try:
            if not os.path.isfile(path):
                raise InvalidSettings(f"{path}: there is no such file{HINT}no model loads without this list")
            names = json.loads(Path(path).read_text("utf-8-sig"))
        except (OSError, RecursionError, ValueError):
            raise InvalidSettings(f"{path}: this list of trusted runtimes is not readable as JSON") from None
        if not isinstance(names, list):
            raise InvalidSettings(f"{path}: trusted runtimes are a JSON list of import paths")
        return cls.of(names, path)

    @staticmethod
    def shipped() -> tuple[str, ...]:
        """Return the import paths of our runtimes."""
        ours = (plugin for plugin in plugins(RUNTIMES).values() if plugin.ours)
        return tuple(sorted({plugin.value.replace(":", ".") for plugin in ours}))

    def enforce(self) -> None:
        """Put this list in force. If another one was put in force, only their common classes remain."""
        global _enforced
        if _enforced is not None and _enforced.paths != self.paths:
            common = [name for name in self.names if _enforced.allows(name)]
            _enforced = TrustedRuntimes.of(common)
        else:
            _enforced = self

    def allows(self, path: str) -> bool:
        """Whether models can use the class at an import path, or under the name of a runtime."""
        return canonical_path(path) in self.paths


def canonical_path(path: str) -> str:
    """Return the import path of the class that a name of a runtime, or a former import path, refers to."""
    runtime = plugins(RUNTIMES).get(path)
    return current_path(path) if runtime is None else runtime.value.replace(":", ".")


@cache
def _find() -> TrustedRuntimes | None:
    """Return the list that the environment names or the machine has, or None."""
    named = [path for variable in VARIABLES if (path := os.environ.get(variable)) is not None]
    files = named or [place for place in PLACES if os.path.lexists(place)]
    return TrustedRuntimes.read(files[0]) if files else None

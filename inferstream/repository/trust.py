"""Rules of trust: the implementations, files and arguments that files without trust may bring.

Each runtime has a `PermittedCall`: the function of its library that reads such files, and its arguments.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from ..errors import InvalidSettings
from ..extensions import RUNTIMES, extensions, plugins
from ..imports.untrusted import UNTRUSTED, marked
from ..settings import ModelParameters, ModelSettings

if TYPE_CHECKING:
    from ..ext import Artefact

ALLOW = "trust_remote_code allows it"

DATA = frozenset(
    [
        *(".safetensors", ".data", ".json", ".jsonl", ".txt", ".model", ".jinja", ".jinja2"),
        *(".spm", ".bpe", ".vocab"),
        *(".tiktoken", ".yaml", ".yml", ".md", ".rst", ".html", ".csv", ".tsv", ".pdf"),
        *(".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp", ".wav", ".flac", ".mp3"),
    ]
)
"""Suffixes of files that no runtime runs or unpickles, beside those that our runtimes declare."""

DATA_NAMES = frozenset(
    ["license", "notice", "readme", "mlmodel", ".gitattributes", ".gitignore", "merges", "vocab"]
)
"""Names of such files without a suffix, in small letters."""


class PermittedCall(NamedTuple):
    """The function of a library that reads a model without trust, and what it may get."""

    function: str
    files: frozenset[str] = frozenset()
    """Suffixes of the files that it reads."""
    settings: frozenset[str] = frozenset()
    """Names in `parameters.extra` that fetched settings may hold. The runtime turns them into arguments."""
    arguments: Mapping[str, Any] = {}
    """Arguments that override settings and the files of the model."""
    values: Mapping[str, str] = {}
    """Patterns of harmless values, and of names in objects, for keys in JSON files that can choose code."""


@dataclass(frozen=True)
class UntrustedOrigin:
    """The origin of fetched files that must not run code, and which of them are allowed."""

    uri: str
    left_out: Sequence[str] = ()
    """Paths of the files that were not kept, because they would run code."""

    MARK: ClassVar[str] = UNTRUSTED
    """Name of the file that `mark` writes. No fetched file may have it."""

    @classmethod
    def of(cls, path: Path) -> "UntrustedOrigin | None":
        """The origin of a fetched file or folder; None if code may run in it."""
        lines = marked(path.parents)
        return cls(lines[0], lines[1:]) if lines else None

    def mark(self, folder: Path) -> None:
        """Let no code run in what is in this folder."""
        (folder / UNTRUSTED).write_text("\n".join([self.uri, *self.left_out]))

    @staticmethod
    def is_data(path: str) -> bool:
        """Whether such a file is data, which no runtime runs or unpickles."""
        name = PurePosixPath(path)
        return name.suffix.lower() in _data() if name.suffix else name.name.lower() in DATA_NAMES

    @staticmethod
    def may_name(implementation: str) -> bool:
        """Whether settings from there may name this implementation."""
        return implementation in shipped()

    def refusal(self, what: str) -> InvalidSettings:
        """The error for `what` of a model from there."""
        return InvalidSettings(f"{what} of {self.uri} would run code from there; {ALLOW}")


@cache
def shipped() -> frozenset[str]:
    """The import paths of our runtimes, and their names in MLServer."""
    ours = [plugin for plugin in plugins(RUNTIMES).values() if plugin.ours]
    names = (text for each in ours for text in (each.name, each.value.replace(":", ".")))
    paths = (path for kind in _artefacts() for path in (kind.implementation, *kind.others))
    return frozenset([*names, *paths])


@cache
def _data() -> frozenset[str]:
    return DATA.union(*(kind.data for kind in _artefacts()))


def _artefacts() -> "Iterator[Artefact]":
    """The kinds of artefacts that we ship. What another package declares is not trusted."""
    return (kind for extension in extensions(ours=True).values() for kind in extension.artefacts)


def refuse_code(path: Path, what: str) -> None:
    """Raise InvalidSettings where `what` of a fetched model would run code that is not trusted."""
    if (origin := UntrustedOrigin.of(path)) is not None:
        raise origin.refusal(what)


def permit(call: PermittedCall, source: Path | str, settings: ModelSettings) -> dict[str, Any]:
    """Return the fixed arguments of the call for a file, a folder, or a name at the hub; none with trust.

    Raises InvalidSettings for a file, and for an argument in settings or files of the model, that is not on the list.
    """
    written = UntrustedOrigin.of(Path(settings.source)) if settings.source is not None else None
    if written is not None:
        by_operator = ModelParameters.from_environment().get("extra") or {}
        for name, value in ((settings.parameters and settings.parameters.extra) or {}).items():
            if name not in call.settings and by_operator.get(name, ...) != value:
                raise written.refusal(f'"{name}" in parameters.extra')
    if isinstance(source, str):
        return {} if settings.trust_remote_code else {**call.arguments}
    origin = UntrustedOrigin.of(source)
    if origin is None:
        return {}
    if source.is_file() and source.suffix.lower() not in call.files:
        raise origin.refusal(source.name)
    check_values(call, source if source.is_dir() else source.parent, origin.uri)
    return {**call.arguments}


def check_values(call: PermittedCall, folder: Path, uri: str) -> None:
    """Raise InvalidSettings for a JSON file in the folder of a model without trust that chooses code.

    So does a link to a folder, whose files are not looked at.
    """
    for path in sorted(folder.rglob("*")) if call.values else ():
        if path.is_symlink() and path.is_dir():
            raise UntrustedOrigin(uri).refusal(f"the link {path.relative_to(folder)}")
        for name in _chosen(path, call.values) if path.suffix == ".json" else ():
            raise UntrustedOrigin(uri).refusal(f"{name} in {path.relative_to(folder)}")


def _chosen(path: Path, patterns: Mapping[str, str]) -> Iterator[str]:
    """The keys in a JSON file whose values are not on the list."""
    try:
        objects = [json.loads(path.read_bytes())]
    except (OSError, ValueError):
        return  # the library says what is wrong
    except RecursionError:  # which a library with fewer calls on the stack may not see
        yield "deep nesting"
        return
    while objects:
        each = objects.pop()
        if isinstance(each, list):
            objects += each
        elif isinstance(each, dict):
            objects += each.values()
            for key, value in each.items():
                if (pattern := patterns.get(key)) is not None:
                    if isinstance(value, dict) and not key.endswith("args"):
                        value = [*value.values()]
                    names = (
                        [value] if isinstance(value, str) else value if isinstance(value, list | dict) else ()
                    )
                    if not all(re.fullmatch(pattern, name) for name in names if isinstance(name, str)):
                        yield f'"{key}"'

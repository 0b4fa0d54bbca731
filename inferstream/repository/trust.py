"""The list of implementations, files and arguments that a model without trust may bring.

Each runtime has a `PermittedCall`: the function of its library that reads such files, and its arguments.
"""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ..errors import InvalidSettings
from ..extensions import RUNTIMES, extensions, plugins
from ..imports.untrusted import untrusted
from ..settings import ModelParameters, ModelSettings
from .remote import ALLOW

if TYPE_CHECKING:
    from ..ext import Artefact

Kind = Literal["implementation", "file", "argument"]

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


FETCH = PermittedCall("fetch")
"""The fetch of a repository, which may bring data."""


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


def is_allowed(kind: Kind, name: str, call: PermittedCall = FETCH) -> bool:
    """Return whether a model without trust may have this implementation, file or argument."""
    if kind == "implementation":
        return name in shipped()
    if kind == "argument":
        return name in call.settings
    path = PurePosixPath(name)
    if path.suffix:
        return path.suffix.lower() in (_data() if call is FETCH else call.files)
    return call is FETCH and path.name.lower() in DATA_NAMES


def refusal(what: str, uri: str) -> InvalidSettings:
    """The error for `what` of a model from `uri`."""
    return InvalidSettings(f"{what} of {uri} would run code from there; {ALLOW}")


def permit(call: PermittedCall, source: Path | str, settings: ModelSettings) -> dict[str, Any]:
    """Return the fixed arguments of the call for a file, a folder, or a name at the hub; none with trust.

    Raises InvalidSettings for a file, and for an argument in settings or files of the model, that is not on the list.
    """
    written = untrusted(Path(settings.source)) if settings.source is not None else None
    if written is not None:
        by_operator = ModelParameters.from_environment().get("extra") or {}
        for name, value in ((settings.parameters and settings.parameters.extra) or {}).items():
            if not is_allowed("argument", name, call) and by_operator.get(name, ...) != value:
                raise refusal(f'"{name}" in parameters.extra', written)
    if isinstance(source, str):
        return {} if settings.trust_remote_code else {**call.arguments}
    uri = untrusted(source)
    if uri is None:
        return {}
    if source.is_file() and not is_allowed("file", source.name, call):
        raise refusal(source.name, uri)
    check_values(call, source if source.is_dir() else source.parent, uri)
    return {**call.arguments}


def check_values(call: PermittedCall, folder: Path, uri: str) -> None:
    """Raise InvalidSettings for a JSON file in the folder of a model without trust that chooses code.

    So does a link to a folder, whose files are not looked at.
    """
    for path in sorted(folder.rglob("*")) if call.values else ():
        if path.is_symlink() and path.is_dir():
            raise refusal(f"the link {path.relative_to(folder)}", uri)
        for name in _chosen(path, call.values) if path.suffix == ".json" else ():
            raise refusal(f"{name} in {path.relative_to(folder)}", uri)


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

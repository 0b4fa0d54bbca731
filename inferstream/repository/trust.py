"""Trust rules: the implementations, files and arguments that are allowed in untrusted models.

Each runtime has a `PermittedCall`: the library function that reads such files, and its arguments.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from ..errors import InvalidSettings
from ..extensions.discovery import extensions, plugins
from ..extensions.entries import RUNTIMES
from ..imports.implementation import check_trusted
from ..imports.trusted import TrustedRuntimes
from ..imports.untrusted import UNTRUSTED, read_marker
from ..settings import ModelParameters, ModelSettings

if TYPE_CHECKING:
    from ..ext import Artefact

ALLOW = "trust_remote_code allows it"
FORBIDDEN = "the list of trusted runtimes forbids it"

UPLOADED = "the uploaded model"
"""The origin of the files in a model folder while a list of trusted runtimes is in force."""

RUNS_CODE = re.compile(
    r"trust_remote_code|\w*(lib|library|plugin|backend)_?paths?|gpu_external_\w+|user_compute_stream"
)
"""Names of arguments that run code of the model, load native libraries, or hold addresses of native code."""

DATA = frozenset(
    [
        *(".safetensors", ".data", ".json", ".jsonl", ".txt", ".model", ".jinja", ".jinja2"),
        *(".spm", ".bpe", ".vocab"),
        *(".tiktoken", ".yaml", ".yml", ".md", ".rst", ".html", ".csv", ".tsv", ".pdf"),
        *(".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp", ".wav", ".flac", ".mp3"),
    ]
)
"""Suffixes of files that no runtime executes or unpickles, in addition to those that our runtimes declare."""

DATA_NAMES = frozenset(
    ["license", "notice", "readme", "mlmodel", ".gitattributes", ".gitignore", "merges", "vocab"]
)
"""Lower-case names of such files without a suffix."""


class PermittedCall(NamedTuple):
    """The library function that reads an untrusted model, and its permitted input."""

    function: str
    files: frozenset[str] = frozenset()
    """The suffixes of the files that it reads."""
    settings: frozenset[str] = frozenset()
    """The names in `parameters.extra` that fetched settings may contain.

    The runtime passes them as arguments.
    """
    arguments: Mapping[str, Any] = {}
    """Arguments that override the settings and files of the model."""
    values: Mapping[str, str] = {}
    """For each key in JSON files that can select code, the pattern of harmless values or names in objects."""


@dataclass(frozen=True)
class UntrustedOrigin:
    """The origin of untrusted fetched files, which must not run code."""

    uri: str
    left_out: Sequence[str] = ()
    """The paths of files that were discarded because they could run code."""

    MARK: ClassVar[str] = UNTRUSTED
    """The name of the file that `mark` writes. A fetched file must not have it."""

    @classmethod
    def of(cls, path: Path) -> "UntrustedOrigin | None":
        """Return the origin of an untrusted file or folder, or None if it is trusted."""
        lines = read_marker(path.parents)
        return cls(lines[0], lines[1:]) if lines else None

    def mark(self, folder: Path) -> None:
        """Mark a folder as untrusted."""
        (folder / UNTRUSTED).write_text("\n".join([self.uri, *self.left_out]))

    @staticmethod
    def is_data(path: str) -> bool:
        """Whether a file is data that no runtime executes or unpickles."""
        name = PurePosixPath(path)
        return name.suffix.lower() in _data() if name.suffix else name.name.lower() in DATA_NAMES

    @staticmethod
    def may_name(implementation: str) -> bool:
        """Whether untrusted settings may use this implementation."""
        runtimes = TrustedRuntimes.current()
        is_listed = runtimes is None or runtimes.allows(implementation)
        return is_listed and implementation in shipped_runtimes()

    @classmethod
    def author(cls, path: Path) -> str | None:
        """Return the origin of a file whose author is not trusted with code, or None."""
        origin = cls.of(path)
        uploaded = None if TrustedRuntimes.current() is None else UPLOADED
        return uploaded if origin is None else origin.uri

    def refusal(self, what: str) -> InvalidSettings:
        """Return the error for `what`, a part of the model that would run code."""
        step = ALLOW if TrustedRuntimes.current() is None else FORBIDDEN
        return InvalidSettings(f"{what} of {self.uri} would run code from there; {step}")


@cache
def shipped_runtimes() -> frozenset[str]:
    """Return the import paths of our runtimes, and their MLServer names."""
    ours = [plugin for plugin in plugins(RUNTIMES).values() if plugin.ours]
    names = (text for each in ours for text in (each.name, each.value.replace(":", ".")))
    paths = (path for kind in _artefacts() for path in (kind.implementation, *kind.others))
    return frozenset([*names, *paths])


@cache
def _data() -> frozenset[str]:
    return DATA.union(*(kind.data for kind in _artefacts()))


def _artefacts() -> "Iterator[Artefact]":
    """Return our own artefact kinds. Declarations of other packages are not trusted."""
    return (kind for extension in extensions(ours=True).values() for kind in extension.artefacts)


def check_model(settings: ModelSettings) -> None:
    """Raise InvalidSettings if the list of trusted runtimes forbids an implementation or an argument."""
    if TrustedRuntimes.current() is None:
        return
    if settings.provided is None:
        check_trusted(settings.implementation_, settings.source)
    parameters = settings.parameters or ModelParameters()
    names = [name for name in ("environment_path", "environment_tarball") if getattr(parameters, name)]
    names += ["trust_remote_code"] if settings.trust_remote_code else []
    names += [name for name, value in _items(parameters.model_dump()) if value and RUNS_CODE.fullmatch(name)]
    if names:
        raise UntrustedOrigin(UPLOADED).refusal(f'"{names[0]}"')


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the keys and values of nested objects."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    if isinstance(value, dict):
        yield from ((str(name), each) for name, each in value.items())
    for each in inner:
        yield from _items(each)


def reject_code(path: Path, what: str) -> None:
    """Raise InvalidSettings if the author of `path` is not trusted, because `what` would run code."""
    if (uri := UntrustedOrigin.author(path)) is not None:
        raise UntrustedOrigin(uri).refusal(what)


def permit(call: PermittedCall, source: Path | str, settings: ModelSettings) -> dict[str, Any]:
    """Return the enforced arguments of a call for a file, a folder or a hub name. Empty for trusted models.

    Raises InvalidSettings for a file, or an argument in the settings or files of the model, that is not
    permitted.
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
    if origin is None and TrustedRuntimes.current() is not None:
        check_values(call, source if source.is_dir() else source.parent, UPLOADED)
        return {name: value for name, value in call.arguments.items() if RUNS_CODE.fullmatch(name)}
    if origin is None:
        return {}
    if source.is_file() and source.suffix.lower() not in call.files:
        raise origin.refusal(source.name)
    check_values(call, source if source.is_dir() else source.parent, origin.uri)
    return {**call.arguments}


def check_values(call: PermittedCall, folder: Path, uri: str) -> None:
    """Raise InvalidSettings if a JSON file in the folder of an untrusted model names code to run.

    Also rejects links to folders, because their files are not checked.
    """
    for path in sorted(folder.rglob("*")) if call.values else ():
        if path.is_symlink() and path.is_dir():
            raise UntrustedOrigin(uri).refusal(f"the link {path.relative_to(folder)}")
        for name in _find_forbidden_keys(path, call.values) if path.suffix == ".json" else ():
            raise UntrustedOrigin(uri).refusal(f"{name} in {path.relative_to(folder)}")


def _find_forbidden_keys(path: Path, patterns: Mapping[str, str]) -> Iterator[str]:
    """Yield the keys in a JSON file whose values are not permitted."""
    try:
        objects = [json.loads(path.read_bytes())]
    except (OSError, ValueError):
        return  # the library reports the error
    except RecursionError:  # a library that is called with a shallower stack may still parse it
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

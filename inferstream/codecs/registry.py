"""Registry of codecs, with lookup by content type, type hint or payload."""

import logging
import sys
import types
import typing
from importlib import import_module
from typing import Any, Generic, TypeVar

from ..extensions.discovery import plugins, remember
from ..extensions.entries import CODECS
from ..extensions.loading import leave_out
from .base import InputCodecLike, RequestCodecLike

logger = logging.getLogger("inferstream.codecs")

OWN = "inferstream.codecs."

ADDED = frozenset({"json", "dict"})
"""Content types that MLServer lacks. The built-in codecs for them are tried last for a payload."""

OPTIONAL = {"pd": "pandas"}
"""Content types that need a heavy library.

The codec loads once the library is imported, or when its content type is requested.
"""

Codec = TypeVar("Codec", InputCodecLike, RequestCodecLike)


class CodecTable(Generic[Codec]):
    """Input codecs or request codecs by content type. A second registration replaces the first."""

    def __init__(self) -> None:
        self.codecs: dict[str, Codec] = {}
        self.added: dict[str, Codec] = {}

    def register(self, content_type: str, codec: Codec) -> None:
        own = codec.__module__.startswith(OWN)
        # Built-in codecs load when their content type is first used, possibly after model code replaced one.
        if own and content_type in self.codecs:
            return
        if own and content_type in ADDED:
            self.added[content_type] = codec
        else:
            self.codecs[content_type] = codec
            self.added.pop(content_type, None)

    def find_by_content_type(self, content_type: str) -> Codec | None:
        _load(content_type)
        return self.codecs.get(content_type) or self.added.get(content_type)

    def find_by_payload(
        self, payload: Any, default: Codec | None = None, *, added: bool = True
    ) -> Codec | None:
        """Return the codec that encodes `payload`: a registered codec, `default`, or a codec of `ADDED`.

        They are tried in this order. The default codec of a runtime therefore receives only payloads
        that no MLServer codec can encode.
        """
        _load_possible()
        # A copy, because another thread may load a codec at the same time.
        for codec in tuple(self.codecs.values()):
            if codec.can_encode(payload):
                return codec
        if default is not None or not added:
            return default
        return next((codec for codec in tuple(self.added.values()) if codec.can_encode(payload)), None)

    def find_by_type_hint(self, hint: Any, *, added: bool = True) -> Codec | None:
        """Return the codec for values annotated with `hint`, or with the origin of `hint`.

        `list[str]` equals `typing.List[str]`. The origin of `NDArray[np.float32]` is `ndarray`.
        """
        _load_possible()
        behind = resolve_alias(hint)
        tried: list[Any] = [_normalise_hint(hint), _normalise_hint(behind)]
        if (origin := typing.get_origin(behind)) is not None:
            tried.append(origin)
        codecs = tuple((self.codecs | (self.added if added else {})).values())
        for wanted in tried:
            for codec in codecs:
                if wanted in map(_normalise_hint, _hints(codec)):
                    return codec
        return None

    def find(
        self,
        content_type: str | None = None,
        payload: Any = None,
        type_hint: Any = None,
        default: Codec | None = None,
        *,
        added: bool = True,
    ) -> Codec | None:
        """Find a codec by content type, type hint or payload, in this order, or return None.

        For a payload, `default` is tried after the MLServer codecs and the registered ones. Unless `added`
        is set, codecs in `ADDED` are found only by content type.
        """
        if content_type:
            return self.find_by_content_type(content_type)
        if type_hint is not None:
            return self.find_by_type_hint(type_hint, added=added)
        return default if payload is None else self.find_by_payload(payload, default, added=added)


def resolve_alias(hint: Any) -> Any:
    """Return the type behind a `NewType` or a `type` statement, such as `NDArray` since NumPy 2.5."""
    while (behind := getattr(hint, "__supertype__", None) or getattr(hint, "__value__", None)) is not None:
        arguments = typing.get_args(hint)
        hint = behind[arguments] if arguments else behind
    return hint


def _hints(codec: InputCodecLike | RequestCodecLike) -> tuple[Any, ...]:
    return (codec.TypeHint, *codec.OtherTypeHints)


def _normalise_hint(hint: Any) -> Any:
    """Normalise a type hint: `typing.List[str]` becomes equal to `list[str]`, and unions are unordered."""
    origin = typing.get_origin(hint)
    if origin is None:
        return hint
    arguments = [_normalise_hint(argument) for argument in typing.get_args(hint)]
    if origin in (typing.Union, types.UnionType):
        return typing.Union, frozenset(arguments)
    return origin, tuple(arguments)


inputs: CodecTable[InputCodecLike] = CodecTable()
requests: CodecTable[RequestCodecLike] = CodecTable()

find_input_codec = inputs.find
find_request_codec = requests.find

_CORE = {
    "str": "string",
    "np": "numpy",
    "base64": "base64",
    "datetime": "datetime",
    "json": "json",
    "dict": "json",
    "pd": "pandas",
}
"""Modules of the built-in codecs, in the order in which they are tried."""

_loaded: set[str] = set()


def load_plugins(strict: bool) -> None:
    """Load the codecs of other packages. If `strict` is set, raises InvalidSettings for an unusable one."""
    if any(not plugin.ours for plugin in plugins(CODECS).values()):
        _load_possible(strict)


def _load(content_type: str, strict: bool = False) -> None:
    if content_type in _loaded:
        return
    plugin = plugins(CODECS).get(content_type)
    if content_type in _CORE:
        try:
            import_module(OWN + _CORE[content_type])
        except Exception as error:
            if content_type not in OPTIONAL:
                raise
            # The library is missing, but requests that do not need it must not fail.
            logger.warning('codec "%s" is not available: %s', content_type, error)
        if plugin is not None:
            leave_out(plugin, "the server has a codec of this content type", strict)
    elif plugin is None:
        return
    else:
        try:
            plugin.load()
        except Exception as error:
            leave_out(plugin, error, strict)
        else:
            if content_type not in inputs.codecs | requests.codecs:
                leave_out(plugin, "it registers no codec of this content type", strict)
    # Set after the import, so that a second thread waits for it.
    _loaded.add(content_type)


@remember
def _content_types() -> tuple[str, ...]:
    """Return the content types of all codecs. Cached, because every returned payload needs them."""
    return *_CORE, *plugins(CODECS)


def _load_possible(strict: bool = False) -> None:
    """Load every codec, except those of heavy libraries that are not imported.

    Until a library is imported, no values of its types can exist.
    """
    for name in _content_types():
        if name not in _loaded and (name not in OPTIONAL or OPTIONAL[name] in sys.modules):
            _load(name, strict)


def register_input_codec(CodecKlass: InputCodecLike, content_type: str = "") -> InputCodecLike:  # noqa: N803
    """Register a codec class for tensors of a content type, by default its own. Usable as a decorator."""
    inputs.register(content_type or CodecKlass.ContentType, CodecKlass)
    return CodecKlass


def register_request_codec(CodecKlass: RequestCodecLike, content_type: str = "") -> RequestCodecLike:  # noqa: N803
    """Register a codec class for requests of a content type, by default its own. Usable as a decorator."""
    requests.register(content_type or CodecKlass.ContentType, CodecKlass)
    return CodecKlass

"""Which codec answers for a content type, a Python type or a payload."""

import logging
import types
import typing
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar

from .base import InputCodecLike, RequestCodecLike

logger = logging.getLogger("inferstream.codecs")

ENTRY_POINTS = "inferstream.codecs"
"""An entry point's name is a content type, its value the module that registers codecs when imported."""

OPTIONAL = {"pd": "pandas"}
"""Content types whose module imports a heavy library: only loaded when the library is, or when asked for."""

Codec = TypeVar("Codec", InputCodecLike, RequestCodecLike)


class CodecTable(Generic[Codec]):
    """Codecs of one level by content type; registering a content type again replaces its codec."""

    def __init__(self) -> None:
        self.codecs: dict[str, Codec] = {}

    def register(self, content_type: str, codec: Codec) -> None:
        self.codecs[content_type] = codec

    def by_content_type(self, content_type: str) -> Codec | None:
        _load(content_type)
        return self.codecs.get(content_type)

    def by_payload(self, payload: Any) -> Codec | None:
        """The first registered codec that can encode `payload`."""
        _load_for(type(payload))
        return next((codec for codec in self.codecs.values() if codec.can_encode(payload)), None)

    def by_type_hint(self, hint: Any) -> Codec | None:
        """The codec for values annotated with `hint`; `list[str]` and `typing.List[str]` are the same."""
        _load_for(hint)
        wanted = _normal(hint)
        return next((codec for codec in self.codecs.values() if wanted in map(_normal, _hints(codec))), None)


def _hints(codec: InputCodecLike | RequestCodecLike) -> tuple[Any, ...]:
    return (codec.TypeHint, *codec.OtherTypeHints)


def _normal(hint: Any) -> Any:
    """The hint as comparable parts: `typing.List[str]` does not equal `list[str]`, nor a Union its reverse."""
    origin = typing.get_origin(hint)
    if origin is None:
        return hint
    arguments = [_normal(argument) for argument in typing.get_args(hint)]
    if origin in (typing.Union, types.UnionType):
        return typing.Union, frozenset(arguments)
    return origin, tuple(arguments)


inputs: CodecTable[InputCodecLike] = CodecTable()
requests: CodecTable[RequestCodecLike] = CodecTable()

_modules: dict[str, str] | None = None
_loaded: set[str] = set()


def _known_modules() -> dict[str, str]:
    global _modules
    if _modules is None:
        core = {name: f"inferstream.codecs.{name_}" for name, name_ in _CORE.items()}
        _modules = core | {point.name: point.value for point in entry_points(group=ENTRY_POINTS)}
    return _modules


_CORE = {
    "str": "string",
    "np": "numpy",
    "base64": "base64",
    "datetime": "datetime",
    "json": "json",
    "pd": "pandas",
}
"""Ours, in the order in which they are asked; listed here too so that a source checkout needs no install."""


def _load(content_type: str) -> None:
    module = _known_modules().get(content_type)
    if module is not None and content_type not in _loaded:
        _loaded.add(content_type)
        try:
            import_module(module)
        except ImportError as error:
            logger.warning('codec "%s" is not available: %s', content_type, error)


def _load_for(kind: Any) -> None:
    """Load every codec that could know values of this type; a heavy one only for its own library's types."""
    origin = str(getattr(kind, "__module__", "")).partition(".")[0]
    for name in _known_modules():
        if OPTIONAL.get(name, origin) == origin:
            _load(name)


def register_input_codec(codec: InputCodecLike) -> InputCodecLike:
    """Class decorator: make `codec` the one for tensors of its content type."""
    inputs.register(codec.ContentType, codec)
    return codec


def register_request_codec(codec: RequestCodecLike) -> RequestCodecLike:
    """Class decorator: make `codec` the one for requests of its content type."""
    requests.register(codec.ContentType, codec)
    return codec


def find_input_codec(
    content_type: str | None = None, payload: Any = None, type_hint: Any = None
) -> InputCodecLike | None:
    """The tensor codec for a content type, else a type hint, else a payload; None when there is none."""
    return _find(inputs, content_type, payload, type_hint)


def find_request_codec(
    content_type: str | None = None, payload: Any = None, type_hint: Any = None
) -> RequestCodecLike | None:
    """The request codec for a content type, else a type hint, else a payload; None when there is none."""
    return _find(requests, content_type, payload, type_hint)


def _find(table: CodecTable[Codec], content_type: str | None, payload: Any, type_hint: Any) -> Codec | None:
    if content_type:
        return table.by_content_type(content_type)
    if type_hint is not None:
        return table.by_type_hint(type_hint)
    return None if payload is None else table.by_payload(payload)

"""Which codec answers for a content type, a Python type or a payload."""

import logging
import sys
import types
import typing
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar

from .base import InputCodecLike, RequestCodecLike

logger = logging.getLogger("inferstream.codecs")

OWN = "inferstream.codecs."

ENTRY_POINTS = "inferstream.codecs"
"""An entry point's name is a content type, its value the module that registers codecs when imported."""

ADDED = frozenset({"json", "dict"})
"""Content types that MLServer does not have: for a payload, our codecs of them are asked after everybody else's."""

OPTIONAL = {"pd": "pandas"}
"""Content types whose module imports a heavy library: only loaded when the library is, or when asked for."""

Codec = TypeVar("Codec", InputCodecLike, RequestCodecLike)


class CodecTable(Generic[Codec]):
    """Codecs of one level by content type; registering a content type again replaces its codec."""

    def __init__(self) -> None:
        self.codecs: dict[str, Codec] = {}
        self.added: dict[str, Codec] = {}

    def register(self, content_type: str, codec: Codec) -> None:
        own = codec.__module__.startswith(OWN)
        # Ours are loaded late, when a content type is first met: by then an author may have replaced one.
        if own and content_type in self.codecs:
            return
        if own and content_type in ADDED:
            self.added[content_type] = codec
        else:
            self.codecs[content_type] = codec
            self.added.pop(content_type, None)

    def by_content_type(self, content_type: str) -> Codec | None:
        _load(content_type)
        return self.codecs.get(content_type) or self.added.get(content_type)

    def by_payload(self, payload: Any, default: Codec | None = None) -> Codec | None:
        """The first registered codec that can encode `payload`, else `default`, else one that MLServer lacks.

        A runtime's default codec is written for the payloads that no codec of MLServer's knows.
        """
        _load_possible()
        # A copy, because another thread may be loading a codec meanwhile.
        for codec in tuple(self.codecs.values()):
            if codec.can_encode(payload):
                return codec
        if default is not None:
            return default
        return next((codec for codec in tuple(self.added.values()) if codec.can_encode(payload)), None)

    def by_type_hint(self, hint: Any) -> Codec | None:
        """The codec for values annotated with `hint`, else for what `hint` is a kind of.

        `list[str]` and `typing.List[str]` are the same; `NDArray[np.float32]` is a kind of `ndarray`.
        """
        _load_possible()
        exact, origin = _normal(hint), typing.get_origin(hint)
        codecs = tuple((self.codecs | self.added).values())
        for wanted in (exact,) if origin is None else (exact, origin):
            for codec in codecs:
                if wanted in map(_normal, _hints(codec)):
                    return codec
        return None


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
        core = {name: OWN + module for name, module in _CORE.items()}
        _modules = core | {point.name: point.value for point in entry_points(group=ENTRY_POINTS)}
    return _modules


_CORE = {
    "str": "string",
    "np": "numpy",
    "base64": "base64",
    "datetime": "datetime",
    "json": "json",
    "dict": "json",
    "pd": "pandas",
}
"""Ours, in the order in which they are asked; listed here too so that a source checkout needs no install."""


def _load(content_type: str) -> None:
    module = _known_modules().get(content_type)
    if module is None or content_type in _loaded:
        return
    try:
        import_module(module)
    except Exception as error:
        # Somebody's broken plug-in must not fail the requests that do without it.
        logger.warning('codec "%s" is not available: %s', content_type, error)
    # Only now, so that a second thread waits for the import instead of finding nothing.
    _loaded.add(content_type)


def _load_possible() -> None:
    """Load every codec that could know some value; without its library no value of a heavy one exists."""
    for name in _known_modules():
        if name not in _loaded and (name not in OPTIONAL or OPTIONAL[name] in sys.modules):
            _load(name)


def register_input_codec(CodecKlass: InputCodecLike) -> InputCodecLike:  # noqa: N803
    """Class decorator: make `CodecKlass` the one for tensors of its content type."""
    inputs.register(CodecKlass.ContentType, CodecKlass)
    return CodecKlass


def register_request_codec(CodecKlass: RequestCodecLike) -> RequestCodecLike:  # noqa: N803
    """Class decorator: make `CodecKlass` the one for requests of its content type."""
    requests.register(CodecKlass.ContentType, CodecKlass)
    return CodecKlass


def find_input_codec(
    content_type: str | None = None,
    payload: Any = None,
    type_hint: Any = None,
    default: InputCodecLike | None = None,
) -> InputCodecLike | None:
    """The tensor codec for a content type, else a type hint, else a payload; None when there is none.

    For a payload `default` is asked after the codecs that MLServer has, or that were registered.
    """
    return _find(inputs, content_type, payload, type_hint, default)


def find_request_codec(
    content_type: str | None = None,
    payload: Any = None,
    type_hint: Any = None,
    default: RequestCodecLike | None = None,
) -> RequestCodecLike | None:
    """The request codec for a content type, else a type hint, else a payload; None when there is none.

    For a payload `default` is asked after the codecs that MLServer has, or that were registered.
    """
    return _find(requests, content_type, payload, type_hint, default)


def _find(
    table: CodecTable[Codec], content_type: str | None, payload: Any, type_hint: Any, default: Codec | None
) -> Codec | None:
    if content_type:
        return table.by_content_type(content_type)
    if type_hint is not None:
        return table.by_type_hint(type_hint)
    return default if payload is None else table.by_payload(payload, default)

"""Loads the handler code of an archive."""

from collections.abc import Callable
from functools import partial
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any, NamedTuple

from inferstream.errors import InvalidSettings
from inferstream.ext.hosting import install_aliases
from inferstream.ext.runtimes import import_from

from .calls import list_classes_from_module
from .context import HandlerContext


class Entry(NamedTuple):
    """The `initialize` and `handle` functions of a handler."""

    initialize: Callable[[HandlerContext], Any]
    handle: Callable[[list[Any], HandlerContext], Any]


def load_entry(handler: str, folder: Path) -> Entry:
    """Load the handler that a manifest names: `module`, `module:function` or `module:class`.

    Raises InvalidSettings if it does not exist.
    """
    path, _, name = handler.partition(":")
    module = _module(PurePosixPath(path).name.removesuffix(".py"), folder)
    named = getattr(module, name or "handle", None)
    if callable(named) and not isinstance(named, type):
        return Entry(partial(named, None), named)
    kinds = [named] if isinstance(named, type) else list_classes_from_module(module)
    if len(kinds) != 1:
        raise InvalidSettings(
            f'handler "{handler}": {module.__name__} has no function {name or "handle"}, and {len(kinds)} '
            "classes; TorchServe takes the only one"
        )
    made = kinds[0]()
    for method in ("initialize", "handle"):
        if not callable(getattr(made, method, None)):
            raise InvalidSettings(f'handler "{handler}": class {kinds[0].__name__} has no method {method}')
    return Entry(made.initialize, made.handle)


def _module(name: str, folder: Path) -> ModuleType:
    install_aliases()
    if (folder / f"{name}.py").is_file() or (folder / name).is_dir():
        return import_from(folder, name)
    stock: ModuleType | None = _stock_module(name)
    if stock is None:
        raise InvalidSettings(
            f'handler "{name}" is neither a file of the archive nor a handler of TorchServe'
        )
    return stock


def _stock_module(name: str) -> Any:
    """Return the module of a built-in handler, or None.

    An installed TorchServe takes precedence over the replacements.
    """
    match name:
        case "base_handler":
            from ts.torch_handler import base_handler

            return base_handler
        case "image_classifier":
            from ts.torch_handler import image_classifier

            return image_classifier
        case "image_segmenter":
            from ts.torch_handler import image_segmenter

            return image_segmenter
        case "object_detector":
            from ts.torch_handler import object_detector

            return object_detector
        case "text_classifier":
            from ts.torch_handler import text_classifier

            return text_classifier
        case "text_handler":
            from ts.torch_handler import text_handler

            return text_handler
        case "vision_handler":
            from ts.torch_handler import vision_handler

            return vision_handler
    return None

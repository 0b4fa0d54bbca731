"""Which code of an archive is the handler."""

from pathlib import Path
from typing import Any

import pytest

from inferstream.errors import InvalidSettings, Unsupported
from inferstream.plugins.torchserve.entry import load_entry

FUNCTION = "def handle(data, context):\n    return ('handle', data)\n\ndef other(data, context):\n    return ('other', data)\n"
CLASS = "class Only:\n    def initialize(self, context): self.said = context\n    def handle(self, data, context): return self.said\n"
CONTEXT: Any = "context"


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        ("m.py", "handle"),
        ("m", "handle"),
        ("m:other", "other"),
        ("m.py:other", "other"),
        ("/src/m.py", "handle"),
    ],
)
def test_functions(tmp_path: Path, handler: str, expected: str) -> None:
    (tmp_path / "m.py").write_text(FUNCTION)
    entry = load_entry(handler, tmp_path)
    assert entry.initialize(CONTEXT) == (expected, None)
    assert entry.handle([1], CONTEXT) == (expected, [1])


@pytest.mark.parametrize("handler", ["m.py", "m:Only", "m.py:entry"])
def test_classes(tmp_path: Path, handler: str) -> None:
    (tmp_path / "m.py").write_text(CLASS)
    entry = load_entry(handler, tmp_path)
    entry.initialize(CONTEXT)
    assert entry.handle([], CONTEXT) == CONTEXT


@pytest.mark.parametrize(
    ("handler", "code", "expected"),
    [
        ("m", "", "module m|m has no function handle, and 0 classes"),
        ("m", "class A: ...\nclass B: ...\n", "and 2 classes"),
        ("m", "class A: ...\n", "class A has no method initialize"),
        ("absent.py", "", "neither a file of the archive nor a handler of TorchServe"),
    ],
)
def test_invalid_handlers(tmp_path: Path, handler: str, code: str, expected: str) -> None:
    (tmp_path / "m.py").write_text(code)
    with pytest.raises(InvalidSettings, match=expected):
        load_entry(handler, tmp_path)


def test_stock_handlers(tmp_path: Path) -> None:
    assert type(load_entry("base_handler", tmp_path).handle.__self__).__name__ == "BaseHandler"  # type: ignore[attr-defined]
    with pytest.raises(Unsupported, match="torchtext"):
        load_entry("text_classifier", tmp_path)

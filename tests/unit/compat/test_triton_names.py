"""The names of Triton's Python backend: every one is there, or says what to use instead."""

import importlib
from pathlib import Path

import pytest

from inferstream import compat
from inferstream.compat.finder import Replaced
from inferstream.compat.triton_names import MODULES
from inferstream.errors import Unsupported

compat.install()


@pytest.mark.parametrize("module", MODULES)
def test_every_name_is_there(module: str) -> None:
    imported = importlib.import_module(module)
    for name in MODULES[module]:
        value = getattr(imported, name)
        if isinstance(value, type) and issubclass(value, Replaced):
            with pytest.raises(Unsupported, match=f"{name} is a part of Triton"):
                value()


def test_what_cannot_be_used_is_listed_with_what_to_use_instead() -> None:
    page = (Path(__file__).parents[3] / "docs" / "triton.md").read_text()
    for names in MODULES.values():
        for name, target in names.items():
            if not isinstance(target, str):
                assert f"`{name}`" in page, name

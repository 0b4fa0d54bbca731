"""The names of Triton's Python backend: every one is there, or says what to use instead."""

import importlib
from pathlib import Path

import pytest

from inferstream.errors import Unsupported
from inferstream.ext.hosting import install_aliases
from inferstream.plugins.triton.names import MODULES
from tests.aliases import is_replaced

install_aliases()


@pytest.mark.parametrize("module", MODULES)
def test_every_name_exists(module: str) -> None:
    imported = importlib.import_module(module)
    for name in MODULES[module]:
        value = getattr(imported, name)
        if is_replaced(value):
            with pytest.raises(Unsupported, match=f"{name} is a part of Triton"):
                value()


def test_unsupported_names_are_listed_with_replacement() -> None:
    page = (Path(__file__).parents[3] / "docs" / "triton.md").read_text()
    for names in MODULES.values():
        for name, target in names.items():
            if not isinstance(target, str):
                assert f"`{name}`" in page, name

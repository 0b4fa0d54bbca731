"""Middleware that the settings of the server name."""

from pathlib import Path

import pytest

from inferstream import Settings
from inferstream.errors import InvalidSettings
from inferstream.repository.middleware import import_middleware

CODE = """
async def outer(call, call_next):
    return await call_next(call)

def blocking(call, call_next):
    return call_next(call)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "around.py").write_text(CODE)
    (tmp_path / "broken_around.py").write_text("raise RuntimeError('no\\nlicence')\n")
    return tmp_path


def settings(folder: Path, *paths: str) -> Settings:
    return Settings(model_repository_root=str(folder), middleware=[*paths])


def test_functions_are_imported_from_the_model_folder(folder: Path) -> None:
    (outer,) = import_middleware(settings(folder, "around.outer"))
    assert outer.__name__ == "outer"
    assert import_middleware(settings(folder)) == ()


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("around.blocking", 'middleware "around.blocking" is no `async def`'),
        ("around.absent", 'middleware "around.absent": .* has no class absent'),
        ("broken_around.f", 'middleware "broken_around.f": no licence'),
    ],
)
def test_invalid_middleware_is_named(folder: Path, path: str, message: str) -> None:
    with pytest.raises(InvalidSettings, match=message):
        import_middleware(settings(folder, path))

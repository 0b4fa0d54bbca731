"""What unit tests of several modules share."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from inferstream.extensions import discovery, entry_points, loading


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Installs packages beside those that are there: what their entry_points.txt says."""
    caches: tuple[Callable, ...] = (
        discovery.plugins,
        discovery.list_entries,
        discovery.load_extensions,
        entry_points.find_entry_points,
        loading._warn_once,
        discovery.references,
        discovery.input_names,
    )

    def forget() -> None:
        for cached in caches:
            cached.cache_clear()
        loading._set_aside.clear()

    def install(**packages: str) -> None:
        for name, text in packages.items():
            folder = tmp_path / f"{name}-1.0.dist-info"
            folder.mkdir()
            (folder / "entry_points.txt").write_text(text)
        monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
        forget()

    yield install
    forget()

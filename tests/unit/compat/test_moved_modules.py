"""Modules of plug-ins under the paths that they had in the package."""

import logging
import pickle
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from inferstream.compat import moved_modules as moved
from inferstream.extensions import discovery
from inferstream.extensions.entries import MOVED, Plugin

FILES = {
    "newhome/__init__.py": "",
    "newhome/single.py": "class Single: ...",
    "newhome/several/__init__.py": '"""Several."""\nfrom .first import First',
    "newhome/several/first.py": "class First: ...",
}
MODULES = {
    "old.single": "newhome.single",
    "several": "newhome.several",
    "old": "newhome",
    "gone": "newhome.gone",
}


@pytest.fixture(autouse=True)
def _moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, text in FILES.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    entries = {old: Plugin("inferstream", MOVED, old, new, "newhome") for old, new in MODULES.items()}
    monkeypatch.setattr(moved, "_warned", set())
    monkeypatch.setattr(discovery, "plugins", lambda group: entries if group == MOVED else {})
    yield
    homes = ("newhome", "inferstream.old", "inferstream.several")
    for name in [name for name in sys.modules if name.startswith(homes)]:
        del sys.modules[name]


def test_moved_module_is_identical_under_both_paths() -> None:
    old, new = import_module("inferstream.old.single"), import_module("newhome.single")
    assert old is new
    assert new.__name__ == new.__spec__.name == "newhome.single"


def test_pickle_with_former_path_loads() -> None:
    new = import_module("newhome.single")
    text = pickle.dumps(new.Single(), protocol=0).replace(b"newhome.single", b"inferstream.old.single")
    assert type(pickle.loads(text)) is new.Single


def test_moved_package_exports_names_and_modules_once() -> None:
    old = import_module("inferstream.several")
    first = import_module("inferstream.several.first")
    assert first is import_module("newhome.several.first")
    assert old.First is first.First
    assert old.__doc__ == "Several."


def test_new_import_path_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            import_module("inferstream.old.single")
    said = [record.getMessage() for record in caplog.records if "single" in record.getMessage()]
    assert said == [
        "inferstream.old.single has moved to newhome.single; its old path will not work in a later version"
    ]


@pytest.mark.parametrize("path", ["inferstream.never", "inferstream.gone", "inferstream.several.second"])
def test_unknown_paths_are_not_found(path: str) -> None:
    assert find_spec(path) is None
    with pytest.raises(ModuleNotFoundError, match=f"'{path}'"):
        import_module(path)


def test_settings_report_the_class_at_its_new_path(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert moved.current_path("inferstream.old.single.Single") == "newhome.single.Single"
    assert "inferstream.old.single has moved to newhome.single" in caplog.text
    for path in ("inferstream.never.Single", "mine.single.Single", "app:single/model", "unknown"):
        assert moved.current_path(path) == path

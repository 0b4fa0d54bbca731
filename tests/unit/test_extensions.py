"""What entry points packages bring, and which of two with one name is taken."""

import sys
import tomllib
from collections.abc import Callable
from os.path import join
from pathlib import Path

import pytest

from inferstream import extensions
from inferstream.errors import InvalidSettings
from inferstream.extensions import COMMANDS, DIALECTS, STAGES, Plugin

ROOT = Path(__file__).parents[2]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Installs packages beside those that are there: what their entry_points.txt says."""
    caches: tuple[Callable, ...] = (extensions.plugins, extensions._installed, extensions._say)

    def forget() -> None:
        for cached in caches:
            cached.cache_clear()

    def install(**packages: str) -> None:
        for name, text in packages.items():
            folder = tmp_path / f"{name}-1.0.dist-info"
            folder.mkdir()
            (folder / "entry_points.txt").write_text(text)
        monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
        forget()

    yield install
    forget()


def test_each_of_ours_is_there() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    for group, points in declared.items():
        ours = {plugin.name: plugin.value for plugin in extensions.plugins(group).values() if plugin.ours}
        assert ours == points, "install the package again: `make .venv/.installed`"
        for plugin in extensions.plugins(group).values():
            if plugin.group in (COMMANDS, DIALECTS):
                assert callable(plugin.load())


def test_sources_that_are_not_installed_have_all_of_ours(installed, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {plugin for plugin in extensions._installed() if plugin.ours}
    monkeypatch.setattr(sys, "path", [])
    extensions._installed.cache_clear()
    assert {*extensions._installed()} == before


def test_a_name_belongs_to_us_or_to_the_first_package(installed, caplog: pytest.LogCaptureFixture) -> None:
    text = "[inferstream.commands]\n# one of ours\ntop = a:b\nnew = a.b:c.d [extra]\n[other]\nx = y\n"
    installed(zweig=text, Anna=text, empty="[console_scripts]\na = b:c\n")
    commands = extensions.plugins(COMMANDS)
    assert commands["top"].ours
    assert commands["new"] == Plugin("anna", COMMANDS, "new", "a.b:c.d")
    extensions.check_names(strict=False)
    extensions.check_names(strict=False)
    assert [record.message.partition(": ")[0] for record in caplog.records] == [
        "package anna",
        "package zweig",
        "package zweig",
    ]
    assert "package anna has this name" in caplog.text
    with pytest.raises(InvalidSettings, match="package inferstream has this name"):
        extensions.check_names(strict=True)


def test_what_fails_is_left_out_with_the_first_line_of_its_error(
    installed, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "failing.py").write_text("raise ValueError('first\\nsecond')\n")
    installed(p="[inferstream.stages]\na = failing:x\nb = os.path:join\nc = os:nothing\n")
    joined = [(plugin.name, value) for plugin, value in extensions.loaded(STAGES, False) if not plugin.ours]
    assert joined == [("b", join)]
    assert "(failing:x): ValueError: first" in caplog.text
    assert "second" not in caplog.text
    assert "AttributeError: module 'os' has no attribute 'nothing'" in caplog.text
    with pytest.raises(InvalidSettings, match='package p: entry point "a"'):
        [*extensions.loaded(STAGES, True)]


def test_an_error_of_ours_is_raised_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError):
        extensions.leave_out(Plugin("inferstream", STAGES, "a", "b:c"), ZeroDivisionError(), strict=False)

"""Changes of libraries at their import."""

import importlib
import sys
import threading
from pathlib import Path
from types import ModuleType

import pytest

from inferstream.telemetry.at_import import patch_at_import

SLOW = "import slow_import_sync as sync\nsync.started.set()\nsync.finish.wait(20)\nVALUE = 1\n"


@pytest.fixture(autouse=True)
def _modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module whose import waits."""
    sync = ModuleType("slow_import_sync")
    sync.started, sync.finish = threading.Event(), threading.Event()
    monkeypatch.setitem(sys.modules, sync.__name__, sync)
    (tmp_path / "slow_import.py").write_text(SLOW)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "slow_import", raising=False)


def test_module_in_import_by_another_thread_is_changed_when_it_is_complete() -> None:
    sync = sys.modules["slow_import_sync"]
    importing = threading.Thread(target=importlib.import_module, args=("slow_import",))
    importing.start()
    assert sync.started.wait(20)
    finish = threading.Timer(0.05, sync.finish.set)
    finish.start()
    values = []
    try:
        patch_at_import("slow_import", lambda module: values.append(module.VALUE))
    finally:
        sync.finish.set()
        importing.join()
        finish.cancel()
        del sys.modules["slow_import"]
    assert values == [1]


def test_later_import_is_changed() -> None:
    sys.modules["slow_import_sync"].finish.set()
    patch_at_import("slow_import", lambda module: setattr(module, "VALUE", module.VALUE + 1))
    assert importlib.import_module("slow_import").VALUE == 2
    patch_at_import("slow_import", lambda module: setattr(module, "VALUE", module.VALUE + 1))
    assert sys.modules.pop("slow_import").VALUE == 3

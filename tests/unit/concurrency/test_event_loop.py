"""The loop of the server, with uvloop and without."""

import asyncio
import sys

import pytest

from inferstream.concurrency.event_loop import new_event_loop


def test_uvloop_is_used_if_installed() -> None:
    uvloop = pytest.importorskip("uvloop")
    loop = new_event_loop()
    loop.close()
    assert isinstance(loop, uvloop.Loop)


def test_asyncio_is_used_without_uvloop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    loop = new_event_loop()
    try:
        assert loop.run_until_complete(asyncio.sleep(0, "ran")) == "ran"
        assert type(loop).__module__.startswith("asyncio")
    finally:
        loop.close()

"""What a reload says of an app that cannot be imported any more."""

import logging
from pathlib import Path

import pytest

from inferstream import Application
from inferstream.errors import InvalidSettings
from inferstream.repository.apps import AppRepository
from inferstream.repository.base import Versions
from inferstream.server.reload import _reload

APP = """
from inferstream import App

app = App()
"""
MODELS = "".join(f"@app.model\ndef model_{name}() -> str:\n    return '{name}'\n" for name in "abc")


class Breaking(AppRepository):
    """An app that fails for a reason, while there is one."""

    reason = ""

    def _import_models(self) -> Versions:
        if self.reason:
            raise InvalidSettings(self.reason)
        return super()._import_models()


async def test_broken_app_is_logged_once_and_reported_for_every_model(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "broken_once.py"
    file.write_text(APP + MODELS)
    repository = Breaking("broken_once:app", tmp_path)
    async with Application(repository=repository) as application:
        for reason in ("line 3: SyntaxError", "line 4: SyntaxError", "line 4: SyntaxError"):
            caplog.clear()
            repository.reason = reason
            with caplog.at_level(logging.ERROR):
                await _reload(application._backend.registry, [file])
            assert [record.getMessage() for record in caplog.records] == [
                f"Model model_a cannot be loaded: {reason}; the old version goes on serving."
            ]
            items = await application.index()
            assert [item.name for item in items] == ["model_a", "model_b", "model_c"]
            assert all(reason in item.reason for item in items)
        repository.reason = ""
        await _reload(application._backend.registry, [file])
        assert {item.reason for item in await application.index()} == {""}

"""Settings of CORS."""

from pathlib import Path

import pytest

from inferstream.settings import (
    load_settings,
)


def test_cors_settings_may_be_separate_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLSERVER_CORS_SETTINGS", '{"max_age": 5}')
    monkeypatch.setenv("MLSERVER_ALLOW_ORIGINS", '["https://a"]')
    cors = load_settings(tmp_path).cors_settings
    assert cors is not None
    assert (cors.max_age, cors.allow_origins) == (5, ["https://a"])

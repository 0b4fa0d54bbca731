"""Where files from elsewhere are kept, and what is trusted of them."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from inferstream.plugins.sources.settings import FetchSettings


def test_files_are_stored_in_user_home_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    assert FetchSettings().sources_dir == "/home/somebody/.cache/inferstream"
    assert FetchSettings(sources_dir="~/models").sources_dir == "/home/somebody/models"
    assert FetchSettings(sources_dir="/data").sources_dir == str(Path("/data"))


def test_fetched_code_is_untrusted_by_default() -> None:
    assert (FetchSettings().trust_remote_code, FetchSettings().offline) == (False, False)
    with pytest.raises(ValidationError, match="max_fetch_bytes"):
        FetchSettings(max_fetch_bytes=0)

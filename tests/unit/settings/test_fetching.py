"""Where files from elsewhere are kept, and what is trusted of them."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from inferstream.settings.fetching import FetchSettings


def test_files_are_kept_in_the_home_of_the_user_unless_somebody_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    assert FetchSettings().sources_dir == "/home/somebody/.cache/inferstream"
    assert FetchSettings(sources_dir="~/models").sources_dir == "/home/somebody/models"
    assert FetchSettings(sources_dir="/data").sources_dir == str(Path("/data"))


def test_code_from_elsewhere_is_not_trusted_by_default() -> None:
    assert (FetchSettings().trust_remote_code, FetchSettings().offline) == (False, False)
    with pytest.raises(ValidationError, match="max_fetch_bytes"):
        FetchSettings(max_fetch_bytes=0)

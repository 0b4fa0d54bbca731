"""The list of what a model without trust may bring."""

from pathlib import Path

import pytest

from inferstream.errors import InvalidSettings
from inferstream.repository.trust import PermittedCall, check_values

CALL = PermittedCall("read", values={"type": r"[^.]*"})


def test_a_file_nested_too_deeply_to_check_is_refused(tmp_path: Path) -> None:
    nested = "[" * 200_000 + "]" * 200_000
    (tmp_path / "modules.json").write_text(f'{{"type": "stranger.Module", "other": {nested}}}')

    with pytest.raises(InvalidSettings, match=r"nesting in modules\.json of hf://model"):
        check_values(CALL, tmp_path, "hf://model")


def test_a_file_that_is_not_json_is_left_to_the_library(tmp_path: Path) -> None:
    (tmp_path / "modules.json").write_text("{")

    check_values(CALL, tmp_path, "hf://model")

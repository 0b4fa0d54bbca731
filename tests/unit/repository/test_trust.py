"""What the JSON files of a model without trust may hold."""

from pathlib import Path

import pytest

from inferstream.errors import InvalidSettings
from inferstream.repository.trust import PermittedCall, check_values

CALL = PermittedCall("read", values={"code": r"\w+"})


def test_a_link_to_a_folder_hides_no_file(tmp_path: Path) -> None:
    for name in ("model", "beside"):
        (tmp_path / name).mkdir()
    (tmp_path / "beside" / "config.json").write_text('{"code": "a.b"}')
    (tmp_path / "model" / "0").symlink_to("../beside")
    with pytest.raises(InvalidSettings, match="the link 0 of hf"):
        check_values(CALL, tmp_path / "model", "hf://a/b")


def test_nesting_hides_no_value(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(f'{{"x": {"[" * 5000}{"]" * 5000}, "code": "a.b"}}')
    with pytest.raises(InvalidSettings, match=r"deep nesting in config\.json"):
        check_values(CALL, tmp_path, "hf://a/b")

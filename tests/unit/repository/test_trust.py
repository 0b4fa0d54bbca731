"""What files without trust may be, and what their JSON may hold."""

from pathlib import Path

import pytest

from inferstream.errors import InvalidSettings
from inferstream.imports.untrusted import UNTRUSTED
from inferstream.repository.trust import PermittedCall, UntrustedOrigin, check_values, reject_code

CALL = PermittedCall("read", values={"code": r"\w+"})


def test_symlinked_folder_is_refused_in_untrusted_files(tmp_path: Path) -> None:
    for name in ("model", "beside"):
        (tmp_path / name).mkdir()
    (tmp_path / "beside" / "config.json").write_text('{"code": "a.b"}')
    (tmp_path / "model" / "0").symlink_to("../beside")
    with pytest.raises(InvalidSettings, match="the link 0 of hf"):
        check_values(CALL, tmp_path / "model", "hf://a/b")


def test_deep_nesting_is_refused_in_untrusted_files(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(f'{{"x": {"[" * 5000}{"]" * 5000}, "code": "a.b"}}')
    with pytest.raises(InvalidSettings, match=r"deep nesting in config\.json"):
        check_values(CALL, tmp_path, "hf://a/b")


def test_code_in_a_fetched_folder_does_not_run(tmp_path: Path) -> None:
    model = tmp_path / "m" / "model.py"
    model.parent.mkdir()
    assert UntrustedOrigin.of(model) is None
    reject_code(model, "implementation")
    origin = UntrustedOrigin("hf://a/b", ["model.py", "x.pkl"])
    origin.mark(tmp_path)
    assert UntrustedOrigin.of(model) == origin
    with pytest.raises(InvalidSettings, match="implementation of hf://a/b would run code from there"):
        reject_code(model, "implementation")


def test_empty_marker_file_removes_trust(tmp_path: Path) -> None:
    (tmp_path / UNTRUSTED).touch()
    assert UntrustedOrigin.of(tmp_path / "model.py") == UntrustedOrigin("", [])


@pytest.mark.parametrize(
    ("path", "is_data"),
    [
        *(("a/model.safetensors", True), ("README", True), ("a/LICENSE", True), ("config.JSON", True)),
        *(("model.py", False), ("a/weights.pkl", False), ("Makefile", False), ("model", False)),
    ],
)
def test_data_files_are_recognized_by_name(path: str, is_data: bool) -> None:
    assert UntrustedOrigin.is_data(path) == is_data


def test_untrusted_settings_may_name_only_builtin_runtimes() -> None:
    assert UntrustedOrigin.may_name("mlserver_sklearn.SKLearnModel")
    assert not UntrustedOrigin.may_name("model.Model")

"""The class of a settings file, which is looked for and not imported."""

from pathlib import Path

import pytest

from inferstream.repository.presence import missing_class


@pytest.mark.parametrize(
    "name",
    ["mlserver_sklearn.SKLearnModel", "inferstream.runtimes.sklearn.SKLearnModel", "inferstream.MLModel"],
)
def test_runtimes_are_known_by_either_name(name: str) -> None:
    assert missing_class(name, None) is None


def test_a_name_that_no_runtime_has_is_a_problem() -> None:
    assert "no module mlserver_sklearn" in (missing_class("mlserver_sklearn.Nonsense", None) or "")


def test_classes_are_found_however_a_module_comes_by_them(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("raise RuntimeError\n")
    (tmp_path / "package" / "inner.py").write_text(
        "try:\n    from heavy import A\nexcept ImportError:\n    class B: pass\nC = object\n"
    )
    (tmp_path / "starry.py").write_text("from heavy import *\n")
    for name in ("package.inner.A", "package.inner.B", "package.inner.C", "starry.Any", "json.JSONDecoder"):
        assert missing_class(name, tmp_path) is None
    assert missing_class("package.inner.D", tmp_path) is not None
    assert missing_class("json.nothing.D", tmp_path) is not None

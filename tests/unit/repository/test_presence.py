"""The class of a settings file, which is looked for and not imported."""

from pathlib import Path

import pytest

from inferstream.repository.presence import find_missing_class


@pytest.mark.parametrize(
    "name",
    [
        "mlserver_sklearn.SKLearnModel",
        "inferstream.plugins.frameworks.sklearn.SKLearnModel",
        "inferstream.MLModel",
    ],
)
def test_runtimes_are_recognized_under_both_names(name: str) -> None:
    assert find_missing_class(name, None) is None


def test_unknown_runtime_name_is_a_problem() -> None:
    assert "no module mlserver_sklearn" in (find_missing_class("mlserver_sklearn.Nonsense", None) or "")


def test_classes_are_found_however_they_are_defined(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("raise RuntimeError\n")
    (tmp_path / "package" / "inner.py").write_text(
        "try:\n    from heavy import A\nexcept ImportError:\n    class B: pass\nC = object\n"
    )
    (tmp_path / "starry.py").write_text("from heavy import *\n")
    for name in ("package.inner.A", "package.inner.B", "package.inner.C", "starry.Any", "json.JSONDecoder"):
        assert find_missing_class(name, tmp_path) is None
    assert find_missing_class("package.inner.D", tmp_path) is not None
    assert find_missing_class("json.nothing.D", tmp_path) is not None

"""The names with which the MLServer of Open Data Hub describes its trusted runtimes."""

import pytest

from inferstream.ext.runtimes import TrustedRuntimes
from inferstream.plugins.mlserver.security import (
    ALIASES,
    ALLOWED_MODEL_IMPLEMENTATIONS,
    RuntimeSecurityMode,
    canonicalize_runtime_import_path,
    describe_security,
    is_valid_runtime_import_path,
)


@pytest.mark.parametrize(
    ("path", "short"),
    [
        ("mlserver_sklearn.sklearn.SKLearnModel", "mlserver_sklearn.SKLearnModel"),
        ("mlserver_alibi_detect.runtime.AlibiDetectRuntime", "mlserver_alibi_detect.AlibiDetectRuntime"),
        ("mlserver_catboost.catboost.CatboostModel", "mlserver_catboost.CatboostModel"),
        ("mlserver_sklearn.own.SKLearnModel", "mlserver_sklearn.own.SKLearnModel"),
        ("own.Model", "own.Model"),
    ],
)
def test_long_names_of_runtimes_become_short(path: str, short: str) -> None:
    assert canonicalize_runtime_import_path(path) == short


def test_every_runtime_has_a_long_name() -> None:
    assert len(ALIASES) == len(ALLOWED_MODEL_IMPLEMENTATIONS) == 10


@pytest.mark.parametrize(
    ("value", "is_valid"),
    [
        ("a.B", True),
        ("a-b.C", True),
        ("a.b", False),
        ("B", False),
        ("sklearn", False),
        (1, False),
        ("_a.B", False),
    ],
)
def test_validity_of_import_paths(value: object, is_valid: bool) -> None:
    assert is_valid_runtime_import_path(value) == is_valid


def test_report_has_the_short_names_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    assert describe_security().mode == RuntimeSecurityMode.DEVELOPMENT
    runtimes = TrustedRuntimes.of(["own.Model", "mlserver_sklearn.sklearn.SKLearnModel"])
    monkeypatch.setattr(TrustedRuntimes, "current", lambda: runtimes)
    report = describe_security()
    assert report.mode == RuntimeSecurityMode.PRODUCTION
    assert report.allowed_model_implementations == ["mlserver_sklearn.SKLearnModel", "own.Model"]

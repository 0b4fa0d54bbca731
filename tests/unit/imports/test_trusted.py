"""Which classes a list of trusted runtimes allows, and which lists are in force."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from inferstream import ModelSettings, Settings
from inferstream.errors import InvalidSettings
from inferstream.imports import trusted
from inferstream.imports.folders import hide_models, import_from
from inferstream.imports.implementation import resolve
from inferstream.imports.trusted import TrustedRuntimes
from inferstream.repository.inspection import inspect_folder
from inferstream.repository.target import resolve_target
from inferstream.repository.trust import PermittedCall, UntrustedOrigin, check_model, permit
from inferstream.settings import load_settings
from inferstream.settings.trusted import enforce_trust

SKLEARN = "inferstream.plugins.frameworks.sklearn.SKLearnModel"


@pytest.fixture(autouse=True)
def no_list(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setattr(trusted, "_enforced", None)
    monkeypatch.setattr(
        trusted, "PLACES", (str(tmp_path / "etc" / "a.json"), str(tmp_path / "etc" / "b.json"))
    )
    monkeypatch.setattr("inferstream.settings.trusted._folders_with_list", set())
    trusted._find.cache_clear()
    yield
    trusted._find.cache_clear()


def write(path: Path, *names: str) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(names))
    return str(path)


@pytest.mark.parametrize(
    "listed", ["mlserver_sklearn.SKLearnModel", "mlserver_sklearn.sklearn.SKLearnModel", SKLEARN, "sklearn"]
)
@pytest.mark.parametrize(
    "named",
    ["mlserver_sklearn.SKLearnModel", "sklearn", SKLEARN, "inferstream.runtimes.sklearn.SKLearnModel"],
)
def test_every_name_of_a_runtime_is_the_same(listed: str, named: str) -> None:
    runtimes = TrustedRuntimes.of([listed])
    assert runtimes.allows(named)
    assert runtimes.names == (listed,)


@pytest.mark.parametrize(
    "named",
    [
        "xgboost",
        "mlserver_sklearn.other.SKLearnModel",
        f"{SKLEARN} ",
        f" {SKLEARN}",
        SKLEARN.lower(),
        f"{SKLEARN}:x",
        "",
        ".",
    ],
)
def test_other_names_are_not_allowed(named: str) -> None:
    assert not TrustedRuntimes.of([SKLEARN]).allows(named)


def test_second_list_can_only_remove_classes() -> None:
    TrustedRuntimes.of(["sklearn", "xgboost"]).enforce()
    TrustedRuntimes.of(["sklearn", "own.Model"]).enforce()
    assert TrustedRuntimes.names_in_force() == ["sklearn"]
    TrustedRuntimes.of(["xgboost"]).enforce()
    assert TrustedRuntimes.names_in_force() == []


def test_first_file_of_the_machine_is_in_force(tmp_path: Path) -> None:
    write(tmp_path / "etc" / "b.json", "sklearn")
    write(tmp_path / "etc" / "a.json", "xgboost")
    assert TrustedRuntimes.names_in_force() == ["xgboost"]


def test_link_to_a_missing_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "b.json").symlink_to("none")
    for _ in range(2):
        with pytest.raises(InvalidSettings, match="there is no such file"):
            TrustedRuntimes.current()


def test_variable_takes_precedence_over_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "etc" / "a.json", "xgboost")
    monkeypatch.setenv("MLSERVER_TRUSTED_RUNTIMES_FILE", write(tmp_path / "etc" / "c.json", "sklearn"))
    assert TrustedRuntimes.names_in_force() == ["sklearn"]


@pytest.mark.parametrize("name", ["trusted_runtimes", "trusted_runtimes_file"])
def test_setting_names_a_list(tmp_path: Path, name: str) -> None:
    enforce_trust(Settings(**{name: write(tmp_path / "list.json", "sklearn")}))
    assert TrustedRuntimes.names_in_force() == ["sklearn"]


def test_settings_file_of_the_operator_can_be_read_again(tmp_path: Path) -> None:
    listed = write(tmp_path / "list.json", "sklearn")
    (tmp_path / "settings.json").write_text(json.dumps({"trusted_runtimes": listed, "middleware": ["a.b"]}))
    for _ in range(2):
        assert load_settings(tmp_path).middleware == ["a.b"]
        assert TrustedRuntimes.names_in_force() == ["sklearn"]


def test_flag_takes_precedence_over_the_settings_file(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"trusted_runtimes": "own.json"}')
    with pytest.raises(InvalidSettings, match="trusted_runtimes in the settings file of the models"):
        load_settings(tmp_path, {"trusted_runtimes": write(tmp_path / "list.json", "sklearn")})


def test_folder_of_a_model_is_not_imported_from(tmp_path: Path) -> None:
    (tmp_path / "only_here.py").write_text("class Net: ...")
    source = str(tmp_path / "model-settings.json")
    assert resolve("only_here.Net", source).__name__ == "Net"
    TrustedRuntimes.of(["only_here.Net"]).enforce()
    with pytest.raises(InvalidSettings, match="there is no module only_here"):
        resolve("only_here.Net", source)  # listed, so it has to be installed
    with pytest.raises(InvalidSettings, match="is not a trusted runtime"):
        resolve("only_here.Other", source)
    with pytest.raises(InvalidSettings, match="there is no module only_here"):
        resolve("only_here.Net", source, by_operator=True)
    with pytest.raises(InvalidSettings, match="the module only_here is a file of the model"):
        import_from(tmp_path, "only_here")


def test_installed_class_that_is_listed_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "installed").mkdir()
    (tmp_path / "installed" / "listed_package.py").write_text("class Net: ...")
    (tmp_path / "listed_package.py").write_text("raise SystemExit")
    monkeypatch.syspath_prepend(str(tmp_path / "installed"))
    TrustedRuntimes.of(["listed_package.Net"]).enforce()
    assert resolve("listed_package.Net", str(tmp_path / "model-settings.json")).__name__ == "Net"


def test_models_are_removed_from_the_module_search_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "models" / "one").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "models" / "one")
    kept = [*sys.path]
    packages = str(tmp_path / "models" / ".venv" / "site-packages")
    monkeypatch.setattr(sys, "path", ["", str(tmp_path / "models"), *kept, packages])
    hide_models(tmp_path / "models")
    assert sys.path == [*kept, packages]


def test_app_in_a_folder_is_refused_and_its_file_is_not(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("")
    TrustedRuntimes.of([]).enforce()
    with pytest.raises(InvalidSettings, match=r"server start .*/app\.py"):
        resolve_target(str(tmp_path))
    assert resolve_target(str(tmp_path / "app.py")).code == "app:app"


def test_arguments_that_run_code_are_refused() -> None:
    settings = ModelSettings(
        implementation="sklearn", parameters={"extra": {"a": [{"backend_path": "x.so"}]}}
    )
    check_model(settings)
    TrustedRuntimes.of(["sklearn"]).enforce()
    with pytest.raises(
        InvalidSettings, match='"backend_path" of the uploaded model would run code from there; the list'
    ):
        check_model(settings)
    check_model(ModelSettings(implementation="sklearn", parameters={"extra": {"trust_remote_code": False}}))


def test_libraries_get_no_permission_to_run_code(tmp_path: Path) -> None:
    call = PermittedCall(
        "read", arguments={"trust_remote_code": False, "weights_only": True}, values={"code": "a"}
    )
    settings = ModelSettings(implementation="sklearn")
    (tmp_path / "weights.bin").touch()
    assert permit(call, tmp_path / "weights.bin", settings) == {}
    assert UntrustedOrigin.author(tmp_path) is None
    TrustedRuntimes.of(["sklearn"]).enforce()
    assert permit(call, tmp_path / "weights.bin", settings) == {"trust_remote_code": False}
    assert UntrustedOrigin.author(tmp_path) == "the uploaded model"
    (tmp_path / "config.json").write_text('{"code": "os.system"}')
    with pytest.raises(InvalidSettings, match=r'"code" in config\.json of the uploaded model'):
        permit(call, tmp_path / "weights.bin", settings)


def test_fetched_models_need_a_listed_runtime_too() -> None:
    TrustedRuntimes.of(["xgboost"]).enforce()
    assert UntrustedOrigin.may_name("xgboost")
    assert not UntrustedOrigin.may_name("sklearn")


def test_check_of_a_folder_reports_forbidden_models(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("class M: ...")
    (tmp_path / "model-settings.json").write_text('{"implementation": "model.M"}')
    assert inspect_folder(tmp_path).models[0].problems == []
    TrustedRuntimes.of([]).enforce()
    assert inspect_folder(tmp_path).models[0].problems == [
        'implementation "model.M" is not a trusted runtime of this server'
    ]

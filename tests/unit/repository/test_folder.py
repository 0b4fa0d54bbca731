"""Which settings files of a folder are models."""

import json
import logging
import os
import sys
from pathlib import Path

import pytest

from inferstream.errors import InvalidSettings
from inferstream.repository.artefacts import NO_MODEL
from inferstream.repository.folder import FolderRepository, settings_files
from inferstream.repository.inspection import inspect_folder
from tests.torchserve import archive


@pytest.fixture(autouse=True)
def no_module_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "model", raising=False)


def test_packages_in_an_environment_are_not_models(tmp_path: Path) -> None:
    installed = "env/lib/python3.11/site-packages/inferstream/cli/templates/predict"
    for folder in ("a", "env-model", installed, ".venv/b", "__pycache__/c"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "model-settings.json").write_text("{}")
    assert [path.parent.name for path in settings_files(tmp_path)] == ["a", "env-model"]


def model_at(folder: Path, **settings: object) -> Path:
    folder.mkdir(parents=True)
    (folder / "model-settings.json").write_text(json.dumps({"implementation": "m.M", **settings}))
    return folder


async def test_links_within_the_repository_are_followed(tmp_path: Path) -> None:
    model_at(tmp_path / "iris-1")
    (tmp_path / "current").symlink_to("iris-1")
    (tmp_path / "iris-1" / "again").symlink_to("..")
    (tmp_path / "iris-1" / "itself").symlink_to(".")
    (tmp_path / "gone").symlink_to("nowhere")
    repository = FolderRepository(tmp_path)
    assert [settings.name for settings in await repository.list()] == ["current", "iris-1"]
    assert await repository.broken() == []


async def test_linked_named_model_is_one_model(tmp_path: Path) -> None:
    model_at(tmp_path / "v1", name="iris")
    (tmp_path / "current").symlink_to("v1")
    repository = FolderRepository(tmp_path)
    assert [settings.name for settings in await repository.list()] == ["iris"]
    assert await repository.broken() == []


async def test_link_out_of_the_repository_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model_at(tmp_path / "elsewhere" / "iris")
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "linked").symlink_to(tmp_path / "elsewhere" / "iris")
    repository = FolderRepository(tmp_path / "served")
    with caplog.at_level(logging.WARNING, "inferstream.repository"):
        assert await repository.list() == await repository.list() == []
    assert caplog.text.count("served/linked: this link leads out of the repository") == 1


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with settings.json alone, and another to work in."""
    for variable in [name for name in os.environ if name.startswith(("MLSERVER_", "INFERSTREAM_"))]:
        monkeypatch.delenv(variable)
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "settings.json").write_text("{}")
    (tmp_path / "working" / "artefact").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "working")
    return folder


@pytest.mark.parametrize("prefix", ["MLSERVER_MODEL_", "INFERSTREAM_MODEL_"])
async def test_variables_describe_a_model_without_model_settings(served, monkeypatch, prefix: str) -> None:
    for name, value in {"NAME": "iris", "IMPLEMENTATION": "model.Iris", "URI": "artefact"}.items():
        monkeypatch.setenv(f"{prefix}{name}", value)
    (settings,) = await FolderRepository(served).list()
    assert (settings.name, settings.implementation_) == ("iris", "model.Iris")
    assert settings.parameters.uri == str(Path.cwd() / "artefact")
    (served / "model.py").write_text("class Iris: here = True")
    assert settings.implementation.here
    assert (await FolderRepository(served).find("iris"))[0].name == "iris"


async def test_dotenv_file_describes_a_model_named_after_its_folder(served) -> None:
    Path(".env").write_text("MLSERVER_MODEL_IMPLEMENTATION=model.Iris\n")
    (settings,) = await FolderRepository(served).list()
    assert settings.name == "served"
    assert settings.parameters.uri == str(served)


async def test_non_path_uri_is_unchanged(served, monkeypatch) -> None:
    monkeypatch.setenv("MLSERVER_MODEL_IMPLEMENTATION", "model.Iris")
    for uri in ("gs://bucket/model", "not-here"):
        monkeypatch.setenv("MLSERVER_MODEL_URI", uri)
        (settings,) = await FolderRepository(served).list()
        assert settings.parameters.uri == uri


async def test_invalid_variables_are_a_broken_model(served, monkeypatch) -> None:
    monkeypatch.setenv("MLSERVER_MODEL_IMPLEMENTATION", "model.Iris")
    monkeypatch.setenv("MLSERVER_MODEL_NAME", "../iris")
    repository = FolderRepository(served)
    assert await repository.list() == []
    (broken,) = await repository.broken()
    assert "name" in broken.reason
    (finding,) = inspect_folder(served).models
    assert finding.problems == [broken.reason]


async def test_settings_file_overrides_variables(served, monkeypatch) -> None:
    monkeypatch.setenv("MLSERVER_MODEL_IMPLEMENTATION", "model.Iris")
    (served / "own").mkdir()
    (served / "own" / "model-settings.json").write_text('{"implementation": "model.Own"}')
    (settings,) = await FolderRepository(served).list()
    assert (settings.name, settings.implementation_) == ("own", "model.Own")


async def test_files_of_a_single_model_describe_it(served, monkeypatch) -> None:
    (served / "model.joblib").write_text("")
    (settings,) = await FolderRepository(served).list()
    assert (settings.name, settings.implementation_) == (
        "served",
        "inferstream.plugins.frameworks.sklearn.SKLearnModel",
    )
    assert settings.parameters.uri == str(served / "model.joblib")
    (finding,) = inspect_folder(served).models
    assert (finding.source, finding.problems) == (".", [])
    monkeypatch.setenv("MLSERVER_MODEL_NAME", "iris")
    (settings,) = await FolderRepository(served).list()
    assert settings.name == "iris"
    monkeypatch.setenv("MLSERVER_MODEL_IMPLEMENTATION", "model.Iris")
    (settings,) = await FolderRepository(served).list()
    assert settings.implementation_ == "model.Iris", "variables say more than files"


async def test_folder_with_unrecognized_files_is_a_broken_model(served) -> None:
    (served / "weights.bin").write_text("")
    repository = FolderRepository(served, "iris")
    assert await repository.list() == []
    (broken,) = await repository.broken()
    assert (broken.name, broken.reason) == ("iris", NO_MODEL)
    (finding,) = inspect_folder(served).models
    assert finding.problems == [NO_MODEL]


async def test_given_name_overrides_the_settings_name(served) -> None:
    (served / "model-settings.json").write_text('{"implementation": "model.Own", "name": "own"}')
    (settings,) = await FolderRepository(served, "iris").list()
    assert settings.name == "iris"
    assert (await FolderRepository(served, "iris").find("iris"))[0].name == "iris"
    (served / "other").mkdir()
    (served / "other" / "model-settings.json").write_text('{"implementation": "model.Other"}')
    repository = FolderRepository(served, "iris")
    assert await repository.list() == []
    (broken,) = await repository.broken()
    assert "two models of this name" in broken.reason
    with pytest.raises(InvalidSettings, match="not a usable model name"):
        FolderRepository(served, "../iris")


async def test_torchserve_archive_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for file, name, version in (
        ("a", "one", "1.0"),
        ("b", "one", "2.0"),
        ("c", "one", "1.0"),
        ("d", "two", ""),
    ):
        archive(tmp_path / f"{file}.mar", "h.py", {"h.py": ""}, modelName=name, modelVersion=version)
    (tmp_path / "e.mar").write_bytes(b"none")
    repository = FolderRepository(tmp_path)
    models = await repository.list()
    assert [(each.name, each.version) for each in models] == [("one", "1.0"), ("one", "2.0"), ("two", None)]
    broken = await repository.broken()
    assert [(each.name, each.version) for each in broken] == [("one", "1.0"), ("e", None)]
    assert "c.mar: a.mar is the same version of the same model" in broken[0].reason
    monkeypatch.setenv("MLSERVER_MODEL_IMPLEMENTATION", "module.Class")
    [described] = await FolderRepository(tmp_path).list()
    assert described.name == tmp_path.name


async def test_artefact_folders_are_one_model_each(tmp_path: Path) -> None:
    for file in ("churn/model.joblib", "graph/net.onnx", "both/a.pkl", "both/b.pkl"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    repository = FolderRepository(tmp_path)
    models = {model.name: model.parameters.uri for model in await repository.list()}
    assert models == {
        "churn": str(tmp_path / "churn" / "model.joblib"),
        "graph": str(tmp_path / "graph" / "net.onnx"),
    }
    [broken] = await repository.broken()
    assert (broken.name, "several artefacts: a.pkl, b.pkl" in broken.reason) == ("both", True)


async def test_single_model_name_does_not_apply_to_several(tmp_path: Path) -> None:
    for file in ("churn/model.joblib", "graph/net.onnx"):
        (tmp_path / file).parent.mkdir()
        (tmp_path / file).touch()
    models = await FolderRepository(tmp_path, "other").list()
    assert [model.name for model in models] == ["churn", "graph"]

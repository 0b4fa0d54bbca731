"""A folder that holds the files of one model and no settings, as KServe's storage initializer fills it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inferstream import extensions as extension_module
from inferstream.errors import InvalidSettings
from inferstream.ext import Artefact, Extension
from inferstream.extensions import EXTENSIONS, Plugin, extensions
from inferstream.repository import artefacts, trust
from inferstream.repository.artefacts import described_by_files, folders_of_models
from inferstream.repository.folder import FolderRepository

RUNTIMES = "inferstream.runtimes"
SKLEARN, XGBOOST = f"{RUNTIMES}.sklearn.SKLearnModel", f"{RUNTIMES}.xgboost.XGBoostModel"
LIGHTGBM = f"{RUNTIMES}.lightgbm.LightGBMModel"


@pytest.mark.parametrize(
    ("name", "content", "runtime"),
    [
        ("model.joblib", b"", SKLEARN),
        ("model.pkl", b"", SKLEARN),
        ("model.pickle", b"", SKLEARN),
        ("iris.joblib", b"", SKLEARN),
        ("model.bst", b"{L\0\0", XGBOOST),
        ("model.bst", b"tree\nversion=v4\n", LIGHTGBM),
        ("model.json", b"{}", XGBOOST),
        ("model.ubj", b"", XGBOOST),
        ("model.txt", b"tree\n", LIGHTGBM),
        ("iris.onnx", b"", f"{RUNTIMES}.onnx.OnnxModel"),
        ("model.cbm", b"", f"{RUNTIMES}.catboost.CatBoostModel"),
        ("net.pt2", b"", f"{RUNTIMES}.torch.TorchModel"),
        ("net.pt", b"", f"{RUNTIMES}.torch.TorchModel"),
        ("tiny.gguf", b"GGUF", f"{RUNTIMES}.llamacpp.LlamaCppModel"),
    ],
)
def test_the_only_artefact_names_its_runtime(tmp_path: Path, name: str, content: bytes, runtime: str) -> None:
    (tmp_path / name).write_bytes(content)
    (tmp_path / "README.txt").write_text("a note")
    (tmp_path / ".hidden.pkl").write_text("")
    found = described_by_files(tmp_path)
    assert found == {"implementation": runtime, "parameters": {"uri": str(tmp_path / name)}}
    assert described_by_files(tmp_path / name) == found


def test_a_graph_beside_the_weights_of_a_transformer_is_another_form_of_them(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["BertForMaskedLM"]}))
    (tmp_path / "model.onnx").touch()
    assert described_by_files(tmp_path)["implementation"] == f"{RUNTIMES}.onnx.OnnxModel"
    (tmp_path / "model.safetensors").touch()
    assert described_by_files(tmp_path)["parameters"] == {"extra": {"task": "fill-mask"}}


@pytest.mark.parametrize(
    ("files", "implementation", "task"),
    [
        ({"config.json": {"architectures": ["LlamaForCausalLM"]}}, "transformers.CausalLM", None),
        (
            {"config.json": {"architectures": ["BertForSequenceClassification"]}},
            "huggingface.HuggingFaceRuntime",
            "text-classification",
        ),
        (
            {"config.json": {"architectures": ["BertForMaskedLM"]}},
            "huggingface.HuggingFaceRuntime",
            "fill-mask",
        ),
        ({"config.json": {"architectures": ["Unheard"]}}, "huggingface.HuggingFaceRuntime", None),
        ({"config.json": {}, "modules.json": []}, "embeddings.EmbeddingsModel", None),
    ],
)
def test_a_folder_of_transformers_names_its_runtime(
    tmp_path: Path, files: dict[str, object], implementation: str, task: str | None
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    (tmp_path / "model.safetensors").write_text("")
    found = described_by_files(tmp_path)
    assert found["implementation"] == f"{RUNTIMES}.{implementation}"
    assert found["parameters"] == ({"extra": {"task": task}} if task else {})


def test_model_is_meant_where_there_are_several(tmp_path: Path) -> None:
    for name in ("model.joblib", "scaler.joblib"):
        (tmp_path / name).write_text("")
    assert described_by_files(tmp_path)["parameters"]["uri"].endswith("model.joblib")


def test_the_parts_of_a_gguf_model_are_one_artefact(tmp_path: Path) -> None:
    for part in (1, 2):
        (tmp_path / f"tiny-0000{part}-of-00002.gguf").write_text("")
    assert described_by_files(tmp_path)["parameters"]["uri"] == str(tmp_path)


@pytest.mark.parametrize("names", [("a.pkl", "b.pkl"), ("model.joblib", "model.bst")])
def test_several_artefacts_are_refused_by_name(tmp_path: Path, names: tuple[str, ...]) -> None:
    for name in names:
        (tmp_path / name).write_text("")
    first, second = sorted(names)
    with pytest.raises(
        InvalidSettings,
        match=f"several artefacts: {first}, {second}; .* server start {first}, server start {second};",
    ):
        described_by_files(tmp_path)


def test_files_without_a_model_are_refused(tmp_path: Path) -> None:
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "a.bin").write_text("")
    with pytest.raises(InvalidSettings, match=r"holds files and no model: no model-settings\.json"):
        described_by_files(tmp_path)


def test_each_folder_with_an_artefact_is_a_model(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for file in (
        "churn/model.joblib",
        "graph/net.onnx",
        "notes/a.txt",
        ".hidden/model.joblib",
        "writer/config.json",
    ):
        (tmp_path / file).parent.mkdir()
        (tmp_path / file).write_text("{}")
    assert [path.name for path in folders_of_models(tmp_path)] == ["churn", "graph", "writer"]
    assert [record.getMessage() for record in caplog.records] == [
        f"{tmp_path / 'notes'}: this folder is skipped: the folder holds files and no model: "
        "no model-settings.json, and no artefact such as model.joblib"
    ]
    (tmp_path / "model.joblib").touch()  # it is the model, and the folders have parts of it
    assert folders_of_models(tmp_path) == []


@pytest.mark.parametrize("name", ["settings.json", ".gitkeep"])
def test_a_folder_without_files_describes_nothing(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("{}")
    (tmp_path / "empty").mkdir()
    assert described_by_files(tmp_path) == {}


JOINED = Extension(
    "joined",
    artefacts=(
        Artefact("joined.Model", names=("model.json",), suffixes=(".abc", ".joblib")),
        Artefact("joined.Other", suffixes=(".abc",), begins=b"other"),
        Artefact(
            "joined.Folder", names=("joined.yaml",), role="folder", settings=f"{__name__}:folder_settings"
        ),
        Artefact(
            "joined.Archive", suffixes=(".arc",), role="archive", settings=f"{__name__}:archive_settings"
        ),
        Artefact(
            "joined.Set", names=("joined.conf",), role="settings", settings=f"{__name__}:archive_settings"
        ),
    ),
)


def folder_settings(folder: Path) -> dict[str, Any]:
    return {"implementation": "joined.Folder", "parameters": {}}


def archive_settings(file: Path) -> dict[str, Any]:
    return {"name": "told", "implementation": "joined.Archive", "parameters": {"uri": str(file)}}


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    known = {**extensions(), "joined": JOINED}
    monkeypatch.setattr(artefacts, "extensions", lambda: known)
    artefacts._kinds.cache_clear()
    yield
    artefacts._kinds.cache_clear()


@pytest.mark.parametrize(
    ("file", "content", "implementation"),
    [
        ("a.abc", b"", "joined.Model"),
        ("a.abc", b"other things", "joined.Other"),
        ("a.joblib", b"", "inferstream.runtimes.sklearn.SKLearnModel"),
        ("model.json", b"", "inferstream.runtimes.xgboost.XGBoostModel"),
        ("joined.yaml", b"", "joined.Folder"),
    ],
)
def test_a_kind_that_joins_is_recognised_after_ours(
    joined: None, tmp_path: Path, file: str, content: bytes, implementation: str
) -> None:
    (tmp_path / file).write_bytes(content)
    assert described_by_files(tmp_path)["implementation"] == implementation


async def test_archives_and_settings_that_join_name_their_models(joined: None, tmp_path: Path) -> None:
    for file in ("archives/x.arc", "settings/a/joined.conf"):
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).write_bytes(b"")
        (model,) = await FolderRepository(tmp_path / file.partition("/")[0]).list()
        assert (model.name, model.parameters.uri) == ("told", str(tmp_path / file))


def test_what_a_kind_of_another_package_names_is_not_trusted(
    joined: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = ([(Plugin("p", EXTENSIONS, "joined", "p:x"), JOINED)], [])
    monkeypatch.setattr(extension_module, "_checked", lambda: checked)
    assert [*extension_module.extensions()] == ["joined"]
    assert [*trust._artefacts()] == []
    assert not trust.UntrustedOrigin.may_name("joined.Model")

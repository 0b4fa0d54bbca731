"""A folder that holds the files of one model and no settings, as KServe's storage initializer fills it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inferstream.errors import InvalidSettings
from inferstream.ext import Artefact, Extension
from inferstream.extensions import discovery
from inferstream.extensions.discovery import extensions
from inferstream.extensions.entries import EXTENSIONS, Plugin
from inferstream.repository import artefacts, trust
from inferstream.repository.artefacts import find_model_folders, infer_settings
from inferstream.repository.folder import FolderRepository

FRAMEWORKS, LLM = "inferstream.plugins.frameworks", "inferstream.plugins.llm"
SKLEARN, XGBOOST = f"{FRAMEWORKS}.sklearn.SKLearnModel", f"{FRAMEWORKS}.xgboost.XGBoostModel"
LIGHTGBM = f"{FRAMEWORKS}.lightgbm.LightGBMModel"


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
        ("iris.onnx", b"", f"{FRAMEWORKS}.onnx.OnnxModel"),
        ("model.cbm", b"", f"{FRAMEWORKS}.catboost.CatBoostModel"),
        ("net.pt2", b"", f"{FRAMEWORKS}.torch.TorchModel"),
        ("net.pt", b"", f"{FRAMEWORKS}.torch.TorchModel"),
        ("tiny.gguf", b"GGUF", f"{LLM}.llamacpp.LlamaCppModel"),
    ],
)
def test_single_artefact_selects_its_runtime(tmp_path: Path, name: str, content: bytes, runtime: str) -> None:
    (tmp_path / name).write_bytes(content)
    (tmp_path / "README.txt").write_text("a note")
    (tmp_path / ".hidden.pkl").write_text("")
    found = infer_settings(tmp_path)
    assert found == {"implementation": runtime, "parameters": {"uri": str(tmp_path / name)}}
    assert infer_settings(tmp_path / name) == found


def test_transformer_weights_take_precedence_over_an_onnx_graph(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["BertForMaskedLM"]}))
    (tmp_path / "model.onnx").touch()
    assert infer_settings(tmp_path)["implementation"] == f"{FRAMEWORKS}.onnx.OnnxModel"
    (tmp_path / "model.safetensors").touch()
    assert infer_settings(tmp_path)["parameters"] == {"extra": {"task": "fill-mask"}}


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
def test_transformers_folder_selects_its_runtime(
    tmp_path: Path, files: dict[str, object], implementation: str, task: str | None
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    (tmp_path / "model.safetensors").write_text("")
    found = infer_settings(tmp_path)
    assert found["implementation"] == f"{LLM}.{implementation}"
    assert found["parameters"] == ({"extra": {"task": task}} if task else {})


def test_file_named_model_is_preferred(tmp_path: Path) -> None:
    for name in ("model.joblib", "scaler.joblib"):
        (tmp_path / name).write_text("")
    assert infer_settings(tmp_path)["parameters"]["uri"].endswith("model.joblib")


def test_gguf_parts_are_one_artefact(tmp_path: Path) -> None:
    for part in (1, 2):
        (tmp_path / f"tiny-0000{part}-of-00002.gguf").write_text("")
    assert infer_settings(tmp_path)["parameters"]["uri"] == str(tmp_path)


@pytest.mark.parametrize("names", [("a.pkl", "b.pkl"), ("model.joblib", "model.bst")])
def test_several_artefacts_are_refused_by_name(tmp_path: Path, names: tuple[str, ...]) -> None:
    for name in names:
        (tmp_path / name).write_text("")
    first, second = sorted(names)
    with pytest.raises(
        InvalidSettings,
        match=f"several artefacts: {first}, {second}; .* server start {first}, server start {second};",
    ):
        infer_settings(tmp_path)


def test_folder_with_unrecognized_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "a.bin").write_text("")
    with pytest.raises(InvalidSettings, match=r"holds files and no model: no model-settings\.json"):
        infer_settings(tmp_path)


def test_every_folder_with_an_artefact_is_a_model(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for file in (
        "churn/model.joblib",
        "graph/net.onnx",
        "notes/a.txt",
        ".hidden/model.joblib",
        "writer/config.json",
    ):
        (tmp_path / file).parent.mkdir()
        (tmp_path / file).write_text("{}")
    assert [path.name for path in find_model_folders(tmp_path)] == ["churn", "graph", "writer"]
    assert [record.getMessage() for record in caplog.records] == [
        f"{tmp_path / 'notes'}: folder skipped: the folder holds files and no model: "
        "no model-settings.json, and no artefact such as model.joblib"
    ]
    (tmp_path / "model.joblib").touch()  # it is the model, and the folders have parts of it
    assert find_model_folders(tmp_path) == []


@pytest.mark.parametrize("name", ["settings.json", ".gitkeep"])
def test_empty_folder_describes_nothing(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("{}")
    (tmp_path / "empty").mkdir()
    assert infer_settings(tmp_path) == {}


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
        ("a.joblib", b"", "inferstream.plugins.frameworks.sklearn.SKLearnModel"),
        ("model.json", b"", "inferstream.plugins.frameworks.xgboost.XGBoostModel"),
        ("joined.yaml", b"", "joined.Folder"),
    ],
)
def test_plugin_artefact_kind_is_recognized_after_builtin_kinds(
    joined: None, tmp_path: Path, file: str, content: bytes, implementation: str
) -> None:
    (tmp_path / file).write_bytes(content)
    assert infer_settings(tmp_path)["implementation"] == implementation


async def test_plugin_archives_and_settings_name_their_models(joined: None, tmp_path: Path) -> None:
    for file in ("archives/x.arc", "settings/a/joined.conf"):
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).write_bytes(b"")
        (model,) = await FolderRepository(tmp_path / file.partition("/")[0]).list()
        assert (model.name, model.parameters.uri) == ("told", str(tmp_path / file))


def test_plugin_artefact_kind_is_not_trusted(joined: None, monkeypatch: pytest.MonkeyPatch) -> None:
    checked = ([(Plugin("p", EXTENSIONS, "joined", "p:x"), JOINED)], [])
    monkeypatch.setattr(discovery, "load_extensions", lambda: checked)
    assert [*discovery.extensions()] == ["joined"]
    assert [*trust._artefacts()] == []
    assert not trust.UntrustedOrigin.may_name("joined.Model")

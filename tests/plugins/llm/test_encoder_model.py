"""How an encoder is chosen for the files of a folder."""

from pathlib import Path
from typing import Any

import pytest

from inferstream import ModelSettings
from inferstream.errors import ModelLoadFailed
from inferstream.plugins.llm import encoder_model
from inferstream.plugins.llm.encoder_model import EncoderModel
from inferstream.plugins.llm.encoders import EncoderFiles, EncoderSettings
from inferstream.plugins.llm.sentences import read_sentences


class Model(EncoderModel):
    extra = "embeddings"
    installed = True

    def _import(self, module: str, extra: str) -> Any:
        if not self.installed:
            raise ModelLoadFailed(f"no {module}")
        return module


@pytest.fixture(autouse=True)
def _named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder_model, "SentenceEncoder", lambda *made: "sentence-transformers")
    monkeypatch.setattr(encoder_model, "TransformerEncoder", lambda *made: "transformers")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    modules = '[{"type": "models.Transformer", "path": ""}, {"type": "models.Normalize"}]'
    (tmp_path / "modules.json").write_text(modules)
    return tmp_path


def chosen(folder: Path, installed: bool = True, **settings: Any) -> Any:
    model = Model(ModelSettings(name="m", implementation="a.B"))
    model.installed = installed
    return model._build_encoder(
        None, None, EncoderFiles(folder, EncoderSettings(**settings), read_sentences(folder))
    )


def test_sentence_transformers_files_use_installed_package(folder: Path) -> None:
    assert chosen(folder) == "sentence-transformers"
    assert chosen(folder, installed=False) == "transformers"
    assert chosen(folder, backend="transformers") == "transformers"


def test_other_files_use_transformers(tmp_path: Path) -> None:
    assert chosen(tmp_path) == "transformers"
    assert chosen(tmp_path, backend="sentence-transformers") == "sentence-transformers"


@pytest.mark.parametrize("settings", [{"pooling": "cls"}, {"normalize": False}])
def test_settings_unlike_files_use_transformers(folder: Path, settings: dict) -> None:
    assert chosen(folder, **settings) == "transformers"
    with pytest.raises(ModelLoadFailed, match=r"pooling and normalize .* need the backend transformers"):
        chosen(folder, backend="sentence-transformers", **settings)


def test_requested_package_must_be_installed(folder: Path) -> None:
    with pytest.raises(ModelLoadFailed, match="no sentence_transformers"):
        chosen(folder, installed=False, backend="sentence-transformers")


def test_requests_run_sequentially_on_all_cores() -> None:
    assert Model(ModelSettings(name="m", implementation="a.B")).settings.threads == 1
    settings = ModelSettings(name="m", implementation="a.B", max_concurrency=3)
    assert Model(settings).settings.threads == 3


async def test_name_without_folder_is_on_the_hub(tmp_path: Path) -> None:
    source = str(tmp_path / "model-settings.json")
    model = Model(ModelSettings(name="m", implementation="a.B", _source=source))
    (tmp_path / "local").mkdir()
    assert await model._source("local") == tmp_path / "local"
    assert await model._source("org/name") == "org/name"

"""How an encoder is chosen for the files of a folder."""

from pathlib import Path
from typing import Any

import pytest

from inferstream import ModelSettings
from inferstream.errors import ModelLoadFailed
from inferstream.runtimes import encoder_model
from inferstream.runtimes.encoder_model import EncoderModel
from inferstream.runtimes.encoders import EncoderFiles, EncoderSettings
from inferstream.runtimes.sentences import read_sentences


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
    return model._encoder_of(
        None, None, EncoderFiles(folder, EncoderSettings(**settings), read_sentences(folder))
    )


def test_files_of_sentence_transformers_are_run_by_it_where_it_is_installed(folder: Path) -> None:
    assert chosen(folder) == "sentence-transformers"
    assert chosen(folder, installed=False) == "transformers"
    assert chosen(folder, backend="transformers") == "transformers"


def test_other_files_are_run_by_transformers(tmp_path: Path) -> None:
    assert chosen(tmp_path) == "transformers"
    assert chosen(tmp_path, backend="sentence-transformers") == "sentence-transformers"


@pytest.mark.parametrize("settings", [{"pooling": "cls"}, {"normalize": False}])
def test_what_differs_from_the_files_is_done_by_transformers(folder: Path, settings: dict) -> None:
    assert chosen(folder, **settings) == "transformers"
    with pytest.raises(ModelLoadFailed, match=r"pooling and normalize .* need the backend transformers"):
        chosen(folder, backend="sentence-transformers", **settings)


def test_a_package_that_is_asked_for_has_to_be_there(folder: Path) -> None:
    with pytest.raises(ModelLoadFailed, match="no sentence_transformers"):
        chosen(folder, installed=False, backend="sentence-transformers")


def test_one_run_takes_all_cores_so_requests_run_one_after_another() -> None:
    assert Model(ModelSettings(name="m", implementation="a.B")).settings.threads == 1
    settings = ModelSettings(name="m", implementation="a.B", max_concurrency=3)
    assert Model(settings).settings.threads == 3


async def test_a_name_that_is_no_folder_is_one_at_the_hub(tmp_path: Path) -> None:
    source = str(tmp_path / "model-settings.json")
    model = Model(ModelSettings(name="m", implementation="a.B", _source=source))
    (tmp_path / "local").mkdir()
    assert await model._source("local") == tmp_path / "local"
    assert await model._source("org/name") == "org/name"

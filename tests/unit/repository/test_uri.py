"""A model's artefacts are found beside its settings file, else where the path says."""

from pathlib import Path

import pytest

from inferstream import ModelSettings
from inferstream.errors import InvalidModelURI
from inferstream.repository.uri import get_model_uri, to_absolute_path


def settings_of(uri: str | None, source: str | None = None) -> ModelSettings:
    return ModelSettings(name="m", implementation="a.B", parameters={"uri": uri}, _source=source)


@pytest.mark.parametrize(
    ("source", "uri", "path"),
    [
        (None, "./a", "./a"),
        (None, "/x/y", "/x/y"),
        ("/q/model-settings.json", "./a/../b", "/q/b"),
        ("/q/model-settings.json", "../z", "/z"),
        ("/q/model-settings.json", "/x/y", "/x/y"),
        ("q/model-settings.json", ".", "q"),
        ("model-settings.json", "a", "a"),
    ],
)
def test_path_is_relative_to_the_settings_file(source: str | None, uri: str, path: str) -> None:
    assert to_absolute_path(settings_of(uri, source), uri) == path


async def test_uri_names_a_file_folder_or_well_known_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "model.bin").touch()
    monkeypatch.chdir(tmp_path)
    beside = settings_of("folder", str(tmp_path / "model-settings.json"))
    assert (
        await get_model_uri(beside, wellknown_filenames=["no", "model.bin"]) == f"{tmp_path}/folder/model.bin"
    )
    assert await get_model_uri(beside) == f"{tmp_path}/folder"
    assert await get_model_uri(settings_of("./folder/model.bin")) == "./folder/model.bin"
    assert await get_model_uri(settings_of(f"file://{tmp_path}/folder")) == f"{tmp_path}/folder"
    assert await get_model_uri(settings_of("s3://bucket/m")) == "s3://bucket/m"


MISSING = ": parameters.uri of the model is missing"


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        (None, MISSING),
        ("", MISSING),
        ("nowhere", " (nowhere): there is no such file or folder, relative to model-settings.json"),
    ],
)
async def test_missing_uri_is_reported_as_given(uri: str | None, shown: str) -> None:
    with pytest.raises(InvalidModelURI) as raised:
        await get_model_uri(settings_of(uri, "/q/model-settings.json"))
    assert str(raised.value) == f"Invalid URI specified for model m{shown}"

"""Python environments of models: where they are, and how they are unpacked."""

import tarfile
from pathlib import Path

import pytest

from inferstream import ModelSettings
from inferstream.errors import ModelLoadFailed
from inferstream.repository.environments import find_environment, find_python


def settings(folder: Path, **parameters: str) -> ModelSettings:
    source = str(folder / "model-settings.json")
    return ModelSettings(name="m", implementation="a.B", parameters=parameters, _source=source)


def environment(folder: Path) -> Path:
    find_python(folder).parent.mkdir(parents=True)
    find_python(folder).touch()
    return folder


async def test_model_without_environment_uses_the_server_environment(tmp_path: Path) -> None:
    assert await find_environment(settings(tmp_path), tmp_path) is None
    assert await find_environment(ModelSettings(name="m", implementation="a.B"), tmp_path) is None


async def test_environment_folder_is_relative_to_the_settings(tmp_path: Path) -> None:
    made = environment(tmp_path / "models" / "env")
    found = await find_environment(settings(tmp_path / "models", environment_path="env"), tmp_path)
    assert found == made


async def test_archive_is_extracted_once_per_content(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "env.tar.gz", "w:gz") as archive:
        archive.add(environment(tmp_path / "packed"), ".")
    own = settings(tmp_path, environment_tarball="env.tar.gz")
    first = await find_environment(own, tmp_path / "envs")
    assert first is not None
    witness = first / "witness"
    witness.touch()
    assert await find_environment(own, tmp_path / "envs") == first
    assert witness.exists()
    assert [path.name for path in (tmp_path / "envs").iterdir()] == [first.name]


@pytest.mark.parametrize(
    ("parameters", "content", "message"),
    [
        ({"environment_path": "env"}, None, "its environment env has no bin/python"),
        ({"environment_tarball": "env.tar.gz"}, None, "env.tar.gz is not there"),
        ({"environment_tarball": "env.tar.gz"}, b"no archive", "env.tar.gz cannot be unpacked"),
    ],
)
async def test_environment_error_is_one_sentence(
    tmp_path: Path, parameters: dict[str, str], content: bytes | None, message: str
) -> None:
    if content is not None:
        (tmp_path / "env.tar.gz").write_bytes(content)
    with pytest.raises(ModelLoadFailed, match=f"Model m did not load: {message}"):
        await find_environment(settings(tmp_path, **parameters), tmp_path / "envs")
    assert not [*(tmp_path / "envs").glob("unpacking-*")]

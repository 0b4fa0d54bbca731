"""What settings that were fetched without trust may name."""

import json
from pathlib import Path

import pytest

from inferstream.repository.fetched import Artefacts, FetchedRepository, left_out
from inferstream.repository.remote import FetchFailed
from inferstream.repository.trust import UntrustedOrigin
from inferstream.settings import ModelSettings, Settings


def scanned(root: Path, trusted: bool, **parameters: object) -> tuple[int, int]:
    """How many models of a fetched repository are usable, and how many are not."""
    folder = root / "model"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "weights").write_bytes(b"x")
    values = {"implementation": "mlserver_sklearn.SKLearnModel", "name": "m", "parameters": parameters}
    (folder / "model-settings.json").write_text(json.dumps(values))
    values = {"model_repository_root": "s3://bucket/models", "trust_remote_code": trusted}
    repository = FetchedRepository(Settings(**values, sources_dir=str(root.parent / "cache")))
    repository._root = root.resolve()
    usable, broken = repository._scan()
    return len(usable), len(broken)


@pytest.mark.parametrize("uri", ["./weights", "weights"])
def test_files_of_the_repository_may_be_named(tmp_path: Path, uri: str) -> None:
    assert scanned(tmp_path / "root", False, uri=uri) == (1, 0)


@pytest.mark.parametrize("uri", ["../../blob", "/etc/hostname", "s3://other/model", "~/.cache/blob"])
def test_nothing_else_may_be_named_without_trust(tmp_path: Path, uri: str) -> None:
    (tmp_path / "blob").write_bytes(b"x")
    assert scanned(tmp_path / "root", False, uri=uri) == (0, 1)
    assert scanned(tmp_path / "trusted", True, uri=uri) == (1, 0)


@pytest.mark.parametrize("uri", ["link/../../../blob", "file:{outside}/blob"])
def test_the_path_that_is_opened_counts(tmp_path: Path, uri: str) -> None:
    """A runtime opens `link/..` as the parent of the link, and `file:` as a scheme."""
    model = tmp_path / "root" / "model"
    (model / "a" / "b" / "c").mkdir(parents=True)
    (model / "link").symlink_to("a/b/c")
    uri = uri.format(outside=tmp_path)
    for harmless in (model / "blob", model / uri):
        harmless.parent.mkdir(parents=True, exist_ok=True)
        harmless.write_bytes(b"x")
    assert scanned(tmp_path / "root", False, uri=uri) == (0, 1)


def test_a_pretrained_model_may_not_come_from_elsewhere(tmp_path: Path) -> None:
    assert scanned(tmp_path / "root", False, extra={"pretrained_model": "org/model"}) == (0, 1)


async def test_a_load_of_one_model_hides_no_change_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = [tmp_path / "1", tmp_path / "2"]
    for version in versions:
        for model in ("a", "b"):
            (version / model).mkdir(parents=True)
            (version / model / "model-settings.json").write_text(
                json.dumps({"implementation": "mlserver_sklearn.SKLearnModel", "name": model})
            )
    now = versions[:1]

    async def fetch(uri: str, trusted: bool, stale: bool = False) -> Path:
        return now[0]

    repository = FetchedRepository(Settings(model_repository_root="s3://bucket/models"))
    monkeypatch.setattr(repository._blobs, "fetch", fetch)
    await repository.list()
    now[:] = versions[1:]
    await repository.find("a")
    assert versions[1] / "b" / "model-settings.json" in await repository.renewed()
    assert await repository.renewed() == ()


async def test_a_source_without_an_answer_has_no_new_version(monkeypatch: pytest.MonkeyPatch) -> None:
    artefacts = Artefacts(Settings())

    async def fetch(uri: str, trusted: bool, stale: bool) -> Path:
        raise FetchFailed("down")

    monkeypatch.setattr(artefacts._blobs, "fetch", fetch)
    settings = ModelSettings(
        implementation="mlserver_sklearn.SKLearnModel", name="m", parameters={"uri": "s3://bucket/m"}
    )
    assert not await artefacts.renewed(settings, settings)


def test_what_was_left_out_is_listed_in_short(tmp_path: Path) -> None:
    assert left_out(tmp_path / "m") == ""
    UntrustedOrigin("hf://a/b").mark(tmp_path)
    assert left_out(tmp_path / "m") == ""
    UntrustedOrigin("hf://a/b", [f"{number}.py" for number in range(14)]).mark(tmp_path)
    said = left_out(tmp_path / "m")
    assert "10.py, 11.py and others (trust_remote_code allows it)" in said
    assert said.startswith("; left out of hf://a/b")

"""What settings that were fetched without trust may name."""

import json
from pathlib import Path

import pytest

from inferstream import ModelSettings, Settings
from inferstream.ext.runtimes import UntrustedOrigin
from inferstream.ext.sources import FetchFailed
from inferstream.plugins.sources.fetched_artefacts import Artefacts, FetchedRepository, describe_left_out


@pytest.fixture(autouse=True)
def shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every implementation is one that is shipped."""
    monkeypatch.setattr(UntrustedOrigin, "may_name", staticmethod(lambda implementation: True))


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
def test_repository_files_can_be_named(tmp_path: Path, uri: str) -> None:
    assert scanned(tmp_path / "root", False, uri=uri) == (1, 0)


@pytest.mark.parametrize("uri", ["../../blob", "/etc/hostname", "s3://other/model", "~/.cache/blob"])
def test_other_files_need_trust(tmp_path: Path, uri: str) -> None:
    (tmp_path / "blob").write_bytes(b"x")
    assert scanned(tmp_path / "root", False, uri=uri) == (0, 1)
    assert scanned(tmp_path / "trusted", True, uri=uri) == (1, 0)


@pytest.mark.parametrize("uri", ["link/../../../blob", "file:{outside}/blob"])
def test_opened_path_is_checked(tmp_path: Path, uri: str) -> None:
    """A runtime opens `link/..` as the parent of the link, and `file:` as a scheme."""
    model = tmp_path / "root" / "model"
    (model / "a" / "b" / "c").mkdir(parents=True)
    (model / "link").symlink_to("a/b/c")
    uri = uri.format(outside=tmp_path)
    for harmless in (model / "blob", model / uri):
        harmless.parent.mkdir(parents=True, exist_ok=True)
        harmless.write_bytes(b"x")
    assert scanned(tmp_path / "root", False, uri=uri) == (0, 1)


def test_pretrained_model_must_be_in_repository(tmp_path: Path) -> None:
    assert scanned(tmp_path / "root", False, extra={"pretrained_model": "org/model"}) == (0, 1)


async def test_load_of_one_model_keeps_changes_of_others_visible(
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
    assert versions[1] / "b" / "model-settings.json" in await repository.check_origin()
    assert await repository.check_origin() == ()


async def test_unreachable_source_has_no_new_version(monkeypatch: pytest.MonkeyPatch) -> None:
    artefacts = Artefacts(Settings())

    async def fetch(uri: str, trusted: bool, stale: bool) -> Path:
        raise FetchFailed("down")

    monkeypatch.setattr(artefacts._blobs, "fetch", fetch)
    settings = ModelSettings(
        implementation="mlserver_sklearn.SKLearnModel", name="m", parameters={"uri": "s3://bucket/m"}
    )
    assert not await artefacts.has_newer(settings, settings)


def test_skipped_files_are_listed_briefly(tmp_path: Path) -> None:
    assert describe_left_out(tmp_path / "m") == ""
    UntrustedOrigin("hf://a/b").mark(tmp_path)
    assert describe_left_out(tmp_path / "m") == ""
    UntrustedOrigin("hf://a/b", [f"{number}.py" for number in range(14)]).mark(tmp_path)
    said = describe_left_out(tmp_path / "m")
    assert "10.py, 11.py and others (trust_remote_code allows it)" in said
    assert said.startswith("; left out of hf://a/b")

"""URIs of what is elsewhere: their sources, their names, and what of them may run."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from inferstream import ModelSettings, Settings
from inferstream.errors import InvalidSettings
from inferstream.extensions import SOURCES, Plugin
from inferstream.imports.untrusted import UNTRUSTED, untrusted
from inferstream.repository import remote
from inferstream.repository.remote import (
    LocalArtefacts,
    RemoteFile,
    RemoteSource,
    artefacts_of,
    is_remote,
    left_out,
    name_of,
    refuse_code,
    remote_repository,
    shown,
    source_of,
)


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("hf://org/model@main", "model"),
        ("s3://bucket/folder/model/", "model"),
        ("s3://bucket", "bucket"),
        ("https://u:p@host/a/model.tar.gz?token=1", "model"),
        ("oci://host/a/model:v1", "model"),
        ("https://host/.tgz", "model"),
    ],
)
def test_the_last_segment_is_the_name(uri: str, name: str) -> None:
    assert name_of(uri) == name


@pytest.mark.parametrize(
    ("uri", "safe"),
    [
        ("https://u:secret@host/a?token=secret#secret", "https://host/a"),
        ("s3://bucket/a@b", "s3://bucket/a@b"),
    ],
)
def test_no_credentials_are_shown(uri: str, safe: str) -> None:
    assert shown(uri) == safe


class Empty(RemoteSource):
    """A source without files."""

    closed = False

    def files(self) -> Sequence[RemoteFile]:
        return ()

    def read(self, file: RemoteFile, offset: int) -> Iterator[bytes]:
        return iter(())

    def close(self) -> None:
        self.closed = True


def fail(uri: str) -> RemoteSource:
    raise ValueError(f"{uri} with its secret")


def refuse(uri: str) -> RemoteSource:
    raise InvalidSettings("pip install it")


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> None:
    """Schemes of a package."""

    class Joined(Plugin):
        def load(self) -> object:
            return {"empty": Empty, "fail": fail, "refuse": refuse, "other": str}[self.name]

    sources = {name: Joined("p", SOURCES, name, "m:x") for name in ("empty", "fail", "refuse", "other")}
    monkeypatch.setattr(remote, "plugins", lambda group: sources)


@pytest.mark.usefixtures("joined")
def test_a_source_is_that_of_its_scheme() -> None:
    assert is_remote("empty://a/b")
    assert not is_remote("nobody://a/b")
    assert not is_remote("empty:a")
    with source_of("empty://a/b") as source:
        assert (source.uri, source.closed) == ("empty://a/b", False)  # type: ignore[attr-defined]
    assert source.closed  # type: ignore[attr-defined]


@pytest.mark.usefixtures("joined")
@pytest.mark.parametrize(
    ("scheme", "said"),
    [("fail", "(m:x): ValueError"), ("other", "it is not a RemoteSource"), ("refuse", "pip install it")],
)
def test_a_source_that_cannot_be_made_is_told_without_its_uri(scheme: str, said: str) -> None:
    with pytest.raises(InvalidSettings) as refused:
        source_of(f"{scheme}://secret")
    assert said in refused.value.message
    assert "secret" not in refused.value.message


def test_code_below_a_fetched_folder_does_not_run(tmp_path: Path) -> None:
    model = tmp_path / "m" / "model.py"
    model.parent.mkdir()
    assert untrusted(model) is None
    refuse_code(model, "implementation")
    (tmp_path / UNTRUSTED).write_text("hf://a/b\nmodel.py\nx.pkl")
    assert untrusted(model) == "hf://a/b"
    with pytest.raises(InvalidSettings, match="implementation of hf://a/b would run code from there"):
        refuse_code(model, "implementation")


def test_what_was_left_out_is_listed_in_short(tmp_path: Path) -> None:
    assert left_out(tmp_path) == ""
    (tmp_path / UNTRUSTED).write_text("hf://a/b")
    assert left_out(tmp_path / "m") == ""
    (tmp_path / UNTRUSTED).write_text("\n".join(["hf://a/b", *(f"{number}.py" for number in range(14))]))
    said = left_out(tmp_path / "m")
    assert "10.py, 11.py and others (trust_remote_code allows it)" in said
    assert said.startswith("; left out of hf://a/b")


def test_an_empty_mark_takes_the_trust_too(tmp_path: Path) -> None:
    (tmp_path / UNTRUSTED).touch()
    assert untrusted(tmp_path / "model.py") == ""
    assert left_out(tmp_path) == ""


async def test_without_a_fetcher_artefacts_are_local_and_a_remote_repository_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remote, "plugins", lambda group: {})
    artefacts = artefacts_of(Settings())
    assert isinstance(artefacts, LocalArtefacts)
    model = ModelSettings(implementation="m.M")
    assert await artefacts.local(model, stale=True) is model
    assert not await artefacts.renewed(model, model)
    assert artefacts.explained("gone", model) == "gone"
    with pytest.raises(InvalidSettings, match="s3://bucket: no extension that is installed fetches"):
        remote_repository(Settings(model_repository_root="s3://key@bucket"), None)

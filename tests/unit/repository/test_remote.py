"""URIs of what is elsewhere: their sources, and what is left without any."""

from collections.abc import Iterator, Sequence

import pytest

from inferstream import ModelSettings, Settings
from inferstream.errors import InvalidSettings
from inferstream.extensions.entries import SOURCES, Plugin
from inferstream.repository import remote
from inferstream.repository.remote import (
    LocalArtefacts,
    RemoteFile,
    RemoteSource,
    find_artefacts,
    open_remote_repository,
    shown,
)


@pytest.mark.parametrize(
    ("uri", "safe"),
    [
        ("https://u:secret@host/a?token=secret#secret", "https://host/a"),
        ("s3://bucket/a@b", "s3://bucket/a@b"),
    ],
)
def test_credentials_are_hidden(uri: str, safe: str) -> None:
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
def test_source_is_selected_by_scheme() -> None:
    assert RemoteSource.is_remote("empty://a/b")
    assert not RemoteSource.is_remote("nobody://a/b")
    assert not RemoteSource.is_remote("empty:a")
    with RemoteSource.of("empty://a/b") as source:
        assert (source.uri, source.closed) == ("empty://a/b", False)  # type: ignore[attr-defined]
    assert source.closed  # type: ignore[attr-defined]


@pytest.mark.usefixtures("joined")
@pytest.mark.parametrize(
    ("scheme", "said"),
    [("fail", "(m:x): ValueError"), ("other", "it is not a RemoteSource"), ("refuse", "pip install it")],
)
def test_unusable_source_is_reported_without_its_uri(scheme: str, said: str) -> None:
    with pytest.raises(InvalidSettings) as refused:
        RemoteSource.of(f"{scheme}://secret")
    assert said in refused.value.message
    assert "secret" not in refused.value.message


async def test_artefacts_are_local_and_remote_repositories_refused_without_a_fetcher(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remote, "plugins", lambda group: {})
    artefacts = find_artefacts(Settings())
    assert isinstance(artefacts, LocalArtefacts)
    model = ModelSettings(implementation="m.M")
    assert await artefacts.local(model, stale=True) is model
    assert not await artefacts.has_newer(model, model)
    assert artefacts.explain("gone", model) == "gone"
    with pytest.raises(InvalidSettings, match="s3://bucket: no extension that is installed fetches"):
        open_remote_repository(Settings(model_repository_root="s3://key@bucket"), None)

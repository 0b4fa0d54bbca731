"""Files that are elsewhere: the contract of their sources, which join by scheme."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

from ..errors import InferstreamError, InvalidSettings
from ..extensions import FETCHERS, SOURCES, plugins
from ..imports.untrusted import UNTRUSTED
from .archives import MAX_DEPTH, MAX_PATH

if TYPE_CHECKING:
    from ..settings import ModelSettings, Settings
    from .base import ModelRepository


class FetchFailed(InferstreamError):
    """Files cannot be fetched. The message holds no credentials."""


class RemoteFile(NamedTuple):
    """One file of a version: its path in the folder, and what tells its content from another."""

    path: str
    size: int | None
    identity: str
    """Changes with the content: a digest, an ETag."""
    digest: str | None = None
    """`sha256:…`, or `git:…` for the SHA-1 of a blob of git; checked after the transfer."""
    unpack: bool = False
    """Whether it is a tar archive, whose members are the files."""
    resumes: bool = True
    """Whether a read from an offset has the content that an earlier one had. Else each transfer starts at 0."""

    @property
    def path_fault(self) -> str | None:
        """Why a folder must not hold a file of this path; None if it may."""
        path = PurePosixPath(self.path)
        outside = path.is_absolute() or ".." in path.parts or not path.parts
        if outside or len(self.path) > MAX_PATH or "\0" in self.path:
            return "leads outside of its folder"
        if len(path.parts) > MAX_DEPTH or path.name == UNTRUSTED:
            return f"is too deep, or is {UNTRUSTED}"
        return None


class RemoteSource(ABC):
    """The files that one URI names. Made for each fetch, closed after it, and called in threads."""

    def __init__(self, uri: str) -> None:
        self.uri = uri

    @staticmethod
    def is_remote(uri: str) -> bool:
        """Whether a source that is installed has the scheme of this URI."""
        scheme, separator, _ = uri.partition("://")
        return bool(separator) and scheme in plugins(SOURCES)

    @staticmethod
    def of(uri: str) -> "RemoteSource":
        """The source of a remote URI. Raises InvalidSettings, for a missing package with the line that installs it."""
        plugin = plugins(SOURCES)[uri.partition("://")[0]]
        try:
            made = plugin.load()(uri)
        except InferstreamError:
            raise
        except Exception as error:  # of a package that others have written
            raise plugin.refusal(type(error).__name__) from None
        if not isinstance(made, RemoteSource):
            raise plugin.refusal("it is not a RemoteSource")
        return made

    @abstractmethod
    def files(self) -> Sequence[RemoteFile]:
        """The files of the present version."""

    @abstractmethod
    def read(self, file: RemoteFile, offset: int) -> Iterator[bytes]:
        """The content of a file from `offset` on. Several threads call this at once."""

    def close(self) -> None:  # noqa: B027  # few have something to close
        """Close what connections there are. The default does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class RemoteArtefacts(Protocol):
    """Fetches what `parameters.uri` of models names."""

    async def local(self, settings: "ModelSettings", stale: bool) -> "ModelSettings":
        """The settings with the path of the present version, where the URI is remote; else the same."""

    async def renewed(self, settings: "ModelSettings", local: "ModelSettings") -> bool:
        """Whether there is a version after the one of `local`."""

    def explained(self, reason: str, settings: "ModelSettings") -> str:
        """The reason of a failed load, with what was left out of what was fetched."""


class LocalArtefacts:
    """RemoteArtefacts of a server that has no sources: all are on this machine."""

    async def local(self, settings: "ModelSettings", stale: bool) -> "ModelSettings":
        return settings

    async def renewed(self, settings: "ModelSettings", local: "ModelSettings") -> bool:
        return False

    def explained(self, reason: str, settings: "ModelSettings") -> str:
        return reason


def artefacts_of(settings: "Settings") -> RemoteArtefacts:
    """What fetches the artefacts of single models."""
    plugin = plugins(FETCHERS).get("artefacts")
    made: RemoteArtefacts = LocalArtefacts() if plugin is None else plugin.load()(settings)
    return made


def remote_repository(settings: "Settings", name: str | None) -> "ModelRepository":
    """The repository at the URI that the settings name, which is remote. Raises InvalidSettings."""
    plugin = plugins(FETCHERS).get("repository")
    if plugin is None:
        raise InvalidSettings(
            f"{shown(settings.model_repository_root)}: no extension that is installed fetches a repository"
        )
    made: ModelRepository = plugin.load()(settings, name)
    return made


def shown(uri: str) -> str:
    """A URI for messages, without the credentials that it may hold."""
    scheme, _, rest = uri.partition("://")
    place = rest.partition("?")[0].partition("#")[0]
    authority, slash, path = place.partition("/")
    return f"{scheme}://{authority.rpartition('@')[2]}{slash}{path}"

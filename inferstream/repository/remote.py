"""The interface of remote model sources, which plug-ins register by URI scheme."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

from ..errors import InferstreamError, InvalidSettings
from ..extensions.discovery import plugins
from ..extensions.entries import FETCHERS, SOURCES
from ..imports.untrusted import UNTRUSTED
from .archives import MAX_DEPTH, MAX_PATH

if TYPE_CHECKING:
    from ..settings import ModelSettings, Settings
    from .base import ModelRepository


class FetchFailed(InferstreamError):
    """Files cannot be fetched. The message contains no credentials."""


class RemoteFile(NamedTuple):
    """One file of a version: its path relative to the folder, and an identifier of its content."""

    path: str
    size: int | None
    identity: str
    """A digest or ETag, which changes with the content."""
    digest: str | None = None
    """`sha256:…`, or `git:…` with the SHA-1 of a git blob. Checked after the transfer."""
    unpack: bool = False
    """Whether it is a tar archive that contains the actual files."""
    resumes: bool = True
    """Whether a transfer can resume at an offset with the same content.

    Otherwise each transfer starts at 0.
    """

    @property
    def path_fault(self) -> str | None:
        """The reason why this path is not safe in a folder, or None."""
        path = PurePosixPath(self.path)
        outside = path.is_absolute() or ".." in path.parts or not path.parts
        if outside or len(self.path) > MAX_PATH or "\0" in self.path:
            return "leads outside of its folder"
        if len(path.parts) > MAX_DEPTH or path.name == UNTRUSTED:
            return f"is too deep, or is {UNTRUSTED}"
        return None


class RemoteSource(ABC):
    """The files at one URI. Created for each fetch, closed after it, and called in threads."""

    def __init__(self, uri: str) -> None:
        self.uri = uri

    @staticmethod
    def is_remote(uri: str) -> bool:
        """Whether an installed source supports the scheme of this URI."""
        scheme, separator, _ = uri.partition("://")
        return bool(separator) and scheme in plugins(SOURCES)

    @staticmethod
    def of(uri: str) -> "RemoteSource":
        """Return the source of a remote URI.

        Raises InvalidSettings. If a package is missing, the message contains the command that installs it.
        """
        plugin = plugins(SOURCES)[uri.partition("://")[0]]
        try:
            made = plugin.load()(uri)
        except InferstreamError:
            raise
        except Exception as error:  # a third-party package can raise anything
            raise plugin.build_error(type(error).__name__) from None
        if not isinstance(made, RemoteSource):
            raise plugin.build_error("it is not a RemoteSource")
        return made

    @abstractmethod
    def files(self) -> Sequence[RemoteFile]:
        """List the files of the current version."""

    @abstractmethod
    def read(self, file: RemoteFile, offset: int) -> Iterator[bytes]:
        """Yield the content of a file from `offset`. Called concurrently by several threads."""

    def close(self) -> None:  # noqa: B027  # optional to override
        """Close all connections. Does nothing by default."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class RemoteArtefacts(Protocol):
    """Fetches the remote artefacts in `parameters.uri` of models."""

    async def local(self, settings: "ModelSettings", stale: bool) -> "ModelSettings":
        """Return the settings with the local path of the current version, or unchanged for a local URI.

        If `stale` is set, a cached version is used when the source is unavailable.
        """

    async def has_newer(self, settings: "ModelSettings", local: "ModelSettings") -> bool:
        """Whether a version newer than `local` exists."""

    def explain(self, reason: str, settings: "ModelSettings") -> str:
        """Return the reason for a failed load, and add the files that were discarded after the fetch."""


class LocalArtefacts:
    """A RemoteArtefacts implementation for a server without remote sources."""

    async def local(self, settings: "ModelSettings", stale: bool) -> "ModelSettings":
        return settings

    async def has_newer(self, settings: "ModelSettings", local: "ModelSettings") -> bool:
        return False

    def explain(self, reason: str, settings: "ModelSettings") -> str:
        return reason


def find_artefacts(settings: "Settings") -> RemoteArtefacts:
    """Return the RemoteArtefacts implementation of the installed plug-in, or LocalArtefacts."""
    plugin = plugins(FETCHERS).get("artefacts")
    made: RemoteArtefacts = LocalArtefacts() if plugin is None else plugin.load()(settings)
    return made


def open_remote_repository(settings: "Settings", name: str | None) -> "ModelRepository":
    """Return the repository at the remote URI in the settings. Raises InvalidSettings."""
    plugin = plugins(FETCHERS).get("repository")
    if plugin is None:
        raise InvalidSettings(
            f"{shown(settings.model_repository_root)}: no extension that is installed fetches a repository"
        )
    made: ModelRepository = plugin.load()(settings, name)
    return made


def shown(uri: str) -> str:
    """Return a URI without credentials, for messages."""
    scheme, _, rest = uri.partition("://")
    place = rest.partition("?")[0].partition("#")[0]
    authority, slash, path = place.partition("/")
    return f"{scheme}://{authority.rpartition('@')[2]}{slash}{path}"

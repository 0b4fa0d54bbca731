"""Models from elsewhere: the repository of a remote URI, and the artefacts of single models."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlparse

from inferstream import ModelSettings, Settings
from inferstream.errors import InferstreamError, InvalidSettings
from inferstream.ext.runtimes import FolderRepository, UntrustedOrigin, to_absolute_path
from inferstream.ext.sources import RemoteSource, hide_credentials
from inferstream.ext.telemetry import get_logger
from inferstream.plugins.sources.untrusted_settings import bound

from ..settings.fetching import FetchSettings
from .blobs import BlobCache

ALLOW = "trust_remote_code allows it"

MOST_SHOWN = 12
"""Files that were left out and that a reason names."""

PRETRAINED = frozenset(["pretrained_model", "pretrained_tokenizer"])
"""Keys of `parameters.extra` that name folders anywhere, and models at the hub."""

logger = get_logger("repository")

Versions = list[ModelSettings]  # named here because a method called `list` hides the type inside the class


class FetchedRepository(FolderRepository):
    """The models of a folder elsewhere. `find` and `renewed` fetch its present version beside the older ones."""

    def __init__(self, settings: Settings, name: str | None = None) -> None:
        fetching = settings.section(FetchSettings)
        super().__init__(fetching.sources_dir, name)
        self._uri = settings.model_repository_root
        self._trusted = fetching.trust_remote_code
        self._server = settings
        self._blobs = BlobCache(settings)
        self._fetched = False
        self._compared = self._root
        """The version that `renewed` has seen last. A load by request fetches later ones."""

    async def list(self) -> Versions:
        if not self._fetched:
            await self._fetch(stale=True)
        return await super().list()

    async def find(self, name: str) -> Versions:
        await self._fetch(stale=False)
        return await super().find(name)

    async def renewed(self) -> Sequence[Path]:
        await self._fetch(stale=True)
        old, self._compared = self._compared, self._root
        if old == self._root:
            return ()
        before, after = _inodes(old), _inodes(self._root)
        changed = [path for path in {*before, *after} if before.get(path) != after.get(path)]
        return [root / path for path in changed for root in (old, self._root)]

    def explain(self, reason: str, path: Path) -> str:
        return f"{reason}{left_out(path)}"

    async def _fetch(self, stale: bool) -> None:
        self._root = self._artefact = (await self._blobs.fetch(self._uri, self._trusted, stale)).resolve()
        if not self._fetched:
            self._fetched, self._compared = True, self._root

    def refused(self, models: Sequence[ModelSettings]) -> Iterator[tuple[ModelSettings, str]]:
        """Whoever wrote the files wrote these settings too."""
        if self._trusted:
            return
        origin = UntrustedOrigin(hide_credentials(self._uri))
        by_operator = ModelSettings.from_environment()
        workers = self._server.most_workers
        for settings in models:
            settings.trust_remote_code = False
            path = settings.implementation_
            if path != by_operator.get("implementation") and not origin.may_name(path):
                yield settings, origin.refusal(f'implementation "{path}"').message
                continue
            workers -= bound(settings, self._server, workers, by_operator)
            parameters = settings.parameters
            extra = (parameters.extra if parameters else None) or {}
            environment = parameters and (parameters.environment_path or parameters.environment_tarball)
            outside = self._leaves(settings) or bool(extra.keys() & PRETRAINED)
            if environment or extra.get("trust_remote_code") or outside:
                yield (
                    settings,
                    f"its settings would run code from {'elsewhere' if outside else 'there'}; {ALLOW}",
                )

    def _leaves(self, settings: ModelSettings) -> bool:
        """Whether the URI in fetched settings names anything but a file or folder of the repository.

        Other files of this machine, blobs of the cache among them, have no mark that says whether they are trusted.
        """
        uri = (settings.parameters.uri if settings.parameters is not None else None) or ""
        parsed = urlparse(uri)
        if parsed.scheme and parsed.scheme != "file":
            return True
        # The path that get_model_uri opens: lexical, where the system would go through links.
        named = Path(to_absolute_path(settings, parsed.path if parsed.scheme else uri)).resolve()
        return not named.is_relative_to(self._root)


def _inodes(root: Path) -> dict[str, int]:
    """The files below a folder. Equal files of two versions are links to one blob."""
    return {
        os.path.relpath(os.path.join(folder, file), root): os.stat(os.path.join(folder, file)).st_ino
        for folder, _, files in os.walk(root)
        for file in files
    }


class Artefacts:
    """Fetches what `parameters.uri` of models names."""

    def __init__(self, settings: Settings) -> None:
        self._blobs = BlobCache(settings)

    async def local(self, settings: ModelSettings, stale: bool) -> ModelSettings:
        """The settings with the path of the present version, where the URI is remote; else the same."""
        uri = settings.parameters.uri if settings.parameters is not None else None
        if uri is None or not RemoteSource.is_remote(uri):
            return settings
        folder = await self._blobs.fetch(uri, settings.trust_remote_code, stale)
        settings = settings.model_copy(deep=True)
        assert settings.parameters is not None
        settings.parameters.uri = str(_named(uri, folder))
        return settings

    async def renewed(self, settings: ModelSettings, local: ModelSettings) -> bool:
        """Whether there is a version after the one of `local`. Without an answer there is none."""
        try:
            return await self.local(settings, stale=False) != local
        except InferstreamError as error:
            logger.warning("%s; what was fetched before goes on serving", error.message)
            return False

    def explained(self, reason: str, settings: ModelSettings) -> str:
        """The reason of a failed load, with the files that were left out of what was fetched."""
        uri = settings.parameters.uri if settings.parameters is not None else None
        more = left_out(Path(to_absolute_path(settings, uri))) if uri else ""
        return f"{reason.rstrip('.')}{more}." if more and more not in reason else reason


def _named(uri: str, folder: Path) -> Path:
    """The file that a URI names, or the folder. Raises InvalidSettings for a file that was left out."""
    content = [*folder.iterdir()]
    if not content:
        raise InvalidSettings(f"there is nothing to serve{left_out(folder)}")
    alone = content[0] if len(content) == 1 and content[0].is_file() else None
    last = uri.partition("#")[0].partition("?")[0].rpartition("/")[2]
    return alone if alone is not None and alone.name == last else folder


def left_out(path: Path) -> str:
    """The end of an error: which files were left out beside this path, and how they come in; empty for none."""
    origin = UntrustedOrigin.of(path)
    if origin is None or not origin.left_out:
        return ""
    # Those of the model come first.
    names = sorted(origin.left_out, key=lambda name: f"/{name.partition('/')[0]}/" not in f"{path}/")
    listed = ", ".join(names[:MOST_SHOWN]) + (" and others" if len(names) > MOST_SHOWN else "")
    return f"; left out of {origin.uri}, because it would run code: {listed} ({ALLOW})"

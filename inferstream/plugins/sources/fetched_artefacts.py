"""Remote models: repositories at a URI, and artefacts of single models."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlparse

from inferstream import ModelSettings, Settings
from inferstream.errors import InferstreamError, InvalidSettings
from inferstream.ext.runtimes import FolderRepository, UntrustedOrigin, to_absolute_path
from inferstream.ext.sources import RemoteSource, hide_credentials
from inferstream.ext.telemetry import get_logger

from .blobs import BlobCache
from .settings import FetchSettings
from .untrusted_settings import bound

ALLOW = "trust_remote_code allows it"

MAX_SHOWN = 12
"""Maximum number of omitted files that an error lists."""

PRETRAINED = frozenset(["pretrained_model", "pretrained_tokenizer"])
"""Keys in `parameters.extra` that can name any folder, or models on the hub."""

logger = get_logger("repository")

Versions = list[ModelSettings]  # Defined here, because inside the class the method `list` hides the type.


class FetchedRepository(FolderRepository):
    """The models of a remote folder.

    `find` and `check_origin` fetch the current version and keep the older ones.
    """

    def __init__(self, settings: Settings, name: str | None = None) -> None:
        fetching = settings.section(FetchSettings)
        super().__init__(fetching.sources_dir, name)
        self._uri = settings.model_repository_root
        self._trusted = fetching.trust_remote_code
        self._server = settings
        self._blobs = BlobCache(settings)
        self._fetched = False
        self._compared = self._root
        """The version at the last `check_origin`. A load by request can fetch a later one."""

    async def list(self) -> Versions:
        if not self._fetched:
            await self._fetch(stale=True)
        return await super().list()

    async def find(self, name: str) -> Versions:
        await self._fetch(stale=False)
        return await super().find(name)

    async def check_origin(self) -> Sequence[Path]:
        await self._fetch(stale=True)
        old, self._compared = self._compared, self._root
        if old == self._root:
            return ()
        before, after = _inodes(old), _inodes(self._root)
        changed = [path for path in {*before, *after} if before.get(path) != after.get(path)]
        return [root / path for path in changed for root in (old, self._root)]

    def explain(self, reason: str, path: Path) -> str:
        return f"{reason}{describe_left_out(path)}"

    async def _fetch(self, stale: bool) -> None:
        self._root = self._artefact = (await self._blobs.fetch(self._uri, self._trusted, stale)).resolve()
        if not self._fetched:
            self._fetched, self._compared = True, self._root

    def find_forbidden(self, models: Sequence[ModelSettings]) -> Iterator[tuple[ModelSettings, str]]:
        """Yield models with forbidden settings. The author of untrusted files also wrote the settings."""
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
            outside = self._points_outside(settings) or bool(extra.keys() & PRETRAINED)
            if environment or extra.get("trust_remote_code") or outside:
                yield (
                    settings,
                    f"its settings would run code from {'elsewhere' if outside else 'there'}; {ALLOW}",
                )

    def _points_outside(self, settings: ModelSettings) -> bool:
        """Whether the URI in fetched settings refers to anything outside of the repository.

        Other files on this machine, including cached blobs, have no mark that shows whether they are trusted.
        """
        uri = (settings.parameters.uri if settings.parameters is not None else None) or ""
        parsed = urlparse(uri)
        if parsed.scheme and parsed.scheme != "file":
            return True
        # Lexical like get_model_uri, which opens this path, although the system would follow links.
        named = Path(to_absolute_path(settings, parsed.path if parsed.scheme else uri)).resolve()
        return not named.is_relative_to(self._root)


def _inodes(root: Path) -> dict[str, int]:
    """Return the inodes of the files in a folder, by relative path.

    Equal files of two versions are links to one blob.
    """
    return {
        os.path.relpath(os.path.join(folder, file), root): os.stat(os.path.join(folder, file)).st_ino
        for folder, _, files in os.walk(root)
        for file in files
    }


class Artefacts:
    """Fetches the artefacts of models whose `parameters.uri` is remote."""

    def __init__(self, settings: Settings) -> None:
        self._blobs = BlobCache(settings)

    async def local(self, settings: ModelSettings, stale: bool) -> ModelSettings:
        """Return settings with the local path of the current version, or unchanged if the URI is local."""
        uri = settings.parameters.uri if settings.parameters is not None else None
        if uri is None or not RemoteSource.is_remote(uri):
            return settings
        folder = await self._blobs.fetch(uri, settings.trust_remote_code, stale)
        settings = settings.model_copy(deep=True)
        assert settings.parameters is not None
        settings.parameters.uri = str(_find_file(uri, folder))
        return settings

    async def has_newer(self, settings: ModelSettings, local: ModelSettings) -> bool:
        """Whether a newer version than `local` exists. False if the source is unavailable."""
        try:
            return await self.local(settings, stale=False) != local
        except InferstreamError as error:
            logger.warning("%s; the previous version stays in use", error.message)
            return False

    def explain(self, reason: str, settings: ModelSettings) -> str:
        """Add the omitted files to the reason for a failed load."""
        uri = settings.parameters.uri if settings.parameters is not None else None
        more = describe_left_out(Path(to_absolute_path(settings, uri))) if uri else ""
        return f"{reason.rstrip('.')}{more}." if more and more not in reason else reason


def _find_file(uri: str, folder: Path) -> Path:
    """Return the file that a URI names, or the folder. Raises InvalidSettings if the file was omitted."""
    content = [*folder.iterdir()]
    if not content:
        raise InvalidSettings(f"there is nothing to serve{describe_left_out(folder)}")
    alone = content[0] if len(content) == 1 and content[0].is_file() else None
    last = uri.partition("#")[0].partition("?")[0].rpartition("/")[2]
    return alone if alone is not None and alone.name == last else folder


def describe_left_out(path: Path) -> str:
    """Return a suffix for errors that lists the files omitted from this path and how to allow them.

    Empty if there are none.
    """
    origin = UntrustedOrigin.of(path)
    if origin is None or not origin.left_out:
        return ""
    # Files of this model are listed first.
    names = sorted(origin.left_out, key=lambda name: f"/{name.partition('/')[0]}/" not in f"{path}/")
    listed = ", ".join(names[:MAX_SHOWN]) + (" and others" if len(names) > MAX_SHOWN else "")
    return f"; left out of {origin.uri}, because it would run code: {listed} ({ALLOW})"

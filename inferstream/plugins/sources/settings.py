"""Settings for content that is fetched from remote URIs."""

from pathlib import Path

from pydantic import Field, field_validator

from inferstream.ext.settings import Section, expand_path


def _default_folder() -> str:
    """Return a folder in the user's home, or an empty string for a user without one, as in some
    containers."""
    try:
        return str(Path.home() / ".cache" / "inferstream")
    except RuntimeError:
        return ""


class FetchSettings(Section):
    """The fields of `settings.json` for remote repositories and artefacts."""

    sources_dir: str = Field(default_factory=_default_folder)
    """Folder for content from remote URIs. Default: `~/.cache/inferstream`."""

    offline: bool = False
    """Serve remote URIs from `sources_dir`, without network access."""

    max_fetch_bytes: int = Field(default=200 * 10**9, gt=0)
    """Maximum size of the content of a remote URI, fetched and unpacked, in bytes or as in `200GB`."""

    trust_remote_code: bool = False
    """Run code and unpickle files from repositories with remote URIs. Set this only if you trust their
    owners. If false, these files are skipped."""

    _most = field_validator("max_fetch_bytes", mode="before")(Section.parse_size)
    _sources = field_validator("sources_dir")(expand_path)

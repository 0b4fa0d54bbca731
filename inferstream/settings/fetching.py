"""Settings of what is fetched from remote URIs."""

from pathlib import Path

from pydantic import Field, field_validator

from inferstream.ext.settings import Section, expand_path


def _default_folder() -> str:
    """The folder in the home of the user; empty for a user without one, as in some containers."""
    try:
        return str(Path.home() / ".cache" / "inferstream")
    except RuntimeError:
        return ""


class FetchSettings(Section):
    """The fields of `settings.json` for repositories and artefacts that are elsewhere."""

    sources_dir: str = Field(default_factory=_default_folder)
    """Folder for what is fetched from remote URIs."""

    offline: bool = False
    """Serve remote URIs from `sources_dir` alone, without the network."""

    max_fetch_bytes: int = Field(default=200 * 10**9, gt=0)
    """Largest content of one remote URI, fetched and unpacked, as in `200GB`."""

    trust_remote_code: bool = False
    """Run code and unpickle files of a repository with a remote URI. Without it they are left out."""

    _most = field_validator("max_fetch_bytes", mode="before")(Section.parse_size)
    _sources = field_validator("sources_dir")(expand_path)

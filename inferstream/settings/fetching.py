"""Settings of what is fetched from remote URIs."""

from pathlib import Path

from pydantic import Field, field_validator

from .environment import EnvironmentModel, expanded


class FetchSettings(EnvironmentModel):
    """The fields of `settings.json` for repositories and artefacts that are elsewhere."""

    sources_dir: str = Field(
        default_factory=lambda: str(Path.home() / ".cache" / "inferstream"),
        description="Folder for what is fetched from remote URIs.",
    )
    offline: bool = Field(
        False, description="Serve remote URIs from `sources_dir` alone, without the network."
    )
    repository_poll: float | None = Field(
        None, gt=0, description="Seconds from one look for new versions at remote URIs to the next."
    )
    trust_remote_code: bool = Field(
        False,
        description="Run code and unpickle files of a repository with a remote URI. Without it they are left out.",
    )

    _sources = field_validator("sources_dir")(expanded)
